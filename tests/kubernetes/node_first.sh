# The first process of a node, in namespaces of its own: mounts, network, then the programs. Its end ends all of them.
# Arguments: the folder of the node, its number, its address, the network of its pods. Programs: $folder/programs.sh.
set -euo pipefail
folder=$1 number=$2 address=$3
cd "$folder"

# Mounts of pods have to pass between the programs of the node, and never to the machine.
mount --make-rprivate /
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/lib
mkdir -p /run/netns /run/containerd /run/lock /var/lib/kubelet /var/lib/cni
mount --bind "$folder/log" /var/log

# The kubelet demands these values. They belong to the whole machine, so it finds files with the values instead.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1; do
  stand_in="$folder/kernel/${setting//[\/=]/-}"
  echo "${setting#*=}" >"$stand_in"
  mount --bind "$stand_in" "/proc/sys/${setting%=*}"
done

hostname "node$number"
ip link set lo up
ip link add nodes type bridge
ip link set nodes up
ip address add "$address/24" dev nodes
# kube-proxy takes the addresses of Services from packets that have a route; the node has no way out.
ip route add default dev nodes
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 0 >/proc/sys/net/ipv4/icmp_ratelimit # a Service without endpoints has to refuse each connection
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables 2>/dev/null || true

touch "$folder/up"
source "$folder/programs.sh"
while :; do wait -n || sleep 0.2; done
