# Sends the packets of pods to the program that enforces network policies, by a queue of netfilter. Argument: networks of pods.
set -euo pipefail
iptables=$(command -v iptables-nft) # one of both has a queue, by the kernel
$iptables -t mangle -N POLICIES && $iptables -t mangle -A POLICIES -j NFQUEUE --queue-num 98 2>/dev/null || iptables=$(command -v iptables-legacy)
$iptables -t mangle -F POLICIES 2>/dev/null || $iptables -t mangle -N POLICIES
$iptables -t mangle -A POLICIES -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
$iptables -t mangle -A POLICIES -m owner --uid-owner 0 -j ACCEPT # the kubelet's probes
for network in "$@"; do
  $iptables -t mangle -A POLICIES -s "$network" -j NFQUEUE --queue-num 98
  $iptables -t mangle -A POLICIES -d "$network" -j NFQUEUE --queue-num 98
done
$iptables -t mangle -A POSTROUTING -j POLICIES
