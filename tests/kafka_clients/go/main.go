// A client of Kafka by franz-go, told by its arguments what to do, and saying in lines of JSON what it saw.
//
//	client produce SERVERS TOPIC           records on standard input; says where each one is
//	client read SERVERS TOPIC COUNT        of all partitions, from their beginning
//	client group SERVERS TOPIC COUNT NAME  as a member of a group; commits what it has read, and leaves
//	client topics SERVERS TOPIC PARTITIONS makes, describes, grows by one, and deletes a topic
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bytes are base64 in JSON; null is apart from what is empty.
type header struct {
	Key   string  `json:"key"`
	Value *[]byte `json:"value"`
}

type record struct {
	Key       *[]byte  `json:"key"`
	Value     *[]byte  `json:"value"`
	Headers   []header `json:"headers"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
	defer cancel()
	verb, servers, topic, rest := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	var err error
	switch verb {
	case "produce":
		err = produce(ctx, servers, topic)
	case "read":
		err = consume(ctx, servers, topic, rest[0], "")
	case "group":
		err = consume(ctx, servers, topic, rest[0], rest[1])
	case "topics":
		err = topics(ctx, servers, topic, rest[0])
	default:
		err = fmt.Errorf("no such verb: %s", verb)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(ctx context.Context, servers, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	var wanted []*kgo.Record
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var each record
		if err := json.Unmarshal(lines.Bytes(), &each); err != nil {
			return err
		}
		wanted = append(wanted, each.toKafka(topic))
	}
	results := client.ProduceSync(ctx, wanted...)
	if err := results.FirstErr(); err != nil {
		return err
	}
	for _, each := range wanted {
		say(fromKafka(each))
	}
	return lines.Err()
}

func consume(ctx context.Context, servers, topic, count, group string) error {
	wanted, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(servers),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if group != "" {
		options = append(options, kgo.ConsumerGroup(group), kgo.DisableAutoCommit())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for wanted > 0 {
		fetches := client.PollRecords(ctx, wanted)
		if err := fetches.Err(); err != nil {
			return err
		}
		found := fetches.Records()
		for _, each := range found {
			say(fromKafka(each))
		}
		if group != "" {
			if err := client.CommitRecords(ctx, found...); err != nil {
				return err
			}
		}
		wanted -= len(found)
	}
	if group != "" {
		return client.LeaveGroupContext(ctx)
	}
	return nil
}

func topics(ctx context.Context, servers, topic, partitions string) error {
	count, err := strconv.Atoi(partitions)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(servers))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, int32(count), 1, nil, topic); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := described(ctx, admin, topic); err != nil {
		return err
	}
	grown, err := admin.CreatePartitions(ctx, 1, topic)
	if err == nil {
		err = grown.Error()
	}
	if err != nil {
		return fmt.Errorf("grow: %w", err)
	}
	if err := described(ctx, admin, topic); err != nil {
		return err
	}
	if _, err := admin.DeleteTopic(ctx, topic); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return described(ctx, admin, topic)
}

// described says how many partitions a topic has; 0 for one that is not there.
func described(ctx context.Context, admin *kadm.Client, topic string) error {
	found, err := admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	say(map[string]int{"partitions": len(found[topic].Partitions)})
	return nil
}

func (r record) toKafka(topic string) *kgo.Record {
	made := &kgo.Record{Topic: topic, Key: taken(r.Key), Value: taken(r.Value)}
	for _, each := range r.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: each.Key, Value: taken(each.Value)})
	}
	return made
}

func fromKafka(r *kgo.Record) record {
	said := record{Key: given(r.Key), Value: given(r.Value), Partition: r.Partition, Offset: r.Offset}
	said.Headers = []header{}
	for _, each := range r.Headers {
		said.Headers = append(said.Headers, header{Key: each.Key, Value: given(each.Value)})
	}
	return said
}

func taken(value *[]byte) []byte {
	if value == nil {
		return nil
	}
	return *value
}

func given(value []byte) *[]byte {
	if value == nil {
		return nil
	}
	return &value
}

func say(it any) {
	line, err := json.Marshal(it)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
