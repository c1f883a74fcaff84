// The official Go SDK, asked over stdin: one JSON object a line, one answer a line.
// An event that was read counts as taken when Validate agrees, as the SDK's own client has it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	kafka "github.com/cloudevents/sdk-go/protocol/kafka_sarama/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/cloudevents/sdk-go/v2/types"
)

type message struct {
	Key     *[]byte          `json:"key"`
	Headers [][2]interface{} `json:"headers"`
	Body    []byte           `json:"body"`
	Value   *[]byte          `json:"value"`
}

type seen struct {
	Attributes map[string]interface{} `json:"attributes"`
	Data       map[string]string      `json:"data"`
}

type request struct {
	Do, Binding, Mode, Version string
	Message                    message
	Events                     []seen
}

type answer struct {
	Events  []seen   `json:"events,omitempty"`
	Empty   bool     `json:"empty,omitempty"`
	Message *message `json:"message,omitempty"`
	Error   string   `json:"error,omitempty"`
}

var ctx = context.Background()

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err := out.Encode(answered(line)); err != nil {
			panic(err)
		}
	}
}

func answered(line []byte) (given answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			given = answer{Error: fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	if asked.Do == "read" {
		events, err := read(asked)
		if err != nil {
			return answer{Error: err.Error()}
		}
		return shown(events)
	}
	sent, err := write(asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Message: sent}
}

func read(asked request) ([]event.Event, error) {
	if asked.Binding == "kafka" {
		return valid(one(binding.ToEvent(ctx, kafka.NewMessageFromConsumerMessage(record(asked.Message)))))
	}
	header := http.Header{}
	for _, pair := range asked.Message.Headers {
		header.Add(pair[0].(string), string(decoded(pair[1])))
	}
	body := io.NopCloser(bytes.NewReader(asked.Message.Body))
	sent := cehttp.NewMessage(header, body)
	if sent.ReadEncoding() == binding.EncodingBatch {
		return valid(binding.ToEvents(ctx, sent, body))
	}
	return valid(one(binding.ToEvent(ctx, sent)))
}

func record(given message) *sarama.ConsumerMessage {
	read := &sarama.ConsumerMessage{Topic: "events"}
	for _, pair := range given.Headers {
		name := []byte(pair[0].(string))
		read.Headers = append(read.Headers, &sarama.RecordHeader{Key: name, Value: decoded(pair[1])})
	}
	if given.Key != nil {
		read.Key = *given.Key
	}
	if given.Value != nil {
		read.Value = append([]byte{}, *given.Value...)
	}
	return read
}

func one(read *event.Event, err error) ([]event.Event, error) {
	if err != nil {
		return nil, err
	}
	return []event.Event{*read}, nil
}

func valid(events []event.Event, err error) ([]event.Event, error) {
	if err != nil {
		return nil, err
	}
	for _, each := range events {
		if err := each.Validate(); err != nil {
			return nil, err
		}
	}
	return events, nil
}

func shown(events []event.Event) answer {
	given := answer{Empty: len(events) == 0}
	for _, each := range events {
		given.Events = append(given.Events, seen{attributes(each), data(each)})
	}
	return given
}

func attributes(of event.Event) map[string]interface{} {
	found := map[string]interface{}{
		"specversion": of.SpecVersion(), "id": of.ID(), "source": of.Source(), "type": of.Type(),
	}
	if !of.Time().IsZero() {
		found["time"] = of.Time().Format(time.RFC3339Nano)
	}
	optional := map[string]string{
		"subject": of.Subject(), "dataschema": of.DataSchema(), "datacontenttype": of.DataContentType(),
	}
	for name, text := range optional {
		if text != "" {
			found[name] = text
		}
	}
	for name, value := range of.Extensions() {
		switch value.(type) {
		case bool, int32:
			found[name] = value
		default:
			text, err := types.Format(value)
			if err != nil {
				text = fmt.Sprint(value)
			}
			found[name] = text
		}
	}
	return found
}

// In 0.3 the data of datacontentencoding base64 is still encoded; DataAs would decode it.
func data(of event.Event) map[string]string {
	raw := of.Data()
	if raw == nil {
		return nil
	}
	if of.DeprecatedDataContentEncoding() == event.Base64 {
		text := string(raw)
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
			raw = plain
		}
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(raw)}
}

func write(asked request) (*message, error) {
	events := make([]event.Event, 0, len(asked.Events))
	for _, each := range asked.Events {
		built, err := build(each, asked.Version)
		if err != nil {
			return nil, err
		}
		events = append(events, *built)
	}
	writing := binding.WithForceBinary(ctx)
	if asked.Mode == "structured" {
		writing = binding.WithForceStructured(ctx)
	}
	if asked.Binding == "kafka" {
		return writeRecord(writing, events[0])
	}
	if asked.Mode == "batch" {
		return sent(cehttp.NewHTTPRequestFromEvents(ctx, "http://localhost/", events))
	}
	return sent(cehttp.NewHTTPRequestFromEvent(writing, "http://localhost/", events[0]))
}

func build(given seen, version string) (*event.Event, error) {
	built := event.New(version)
	mediaType := ""
	for name, value := range given.Attributes {
		text := fmt.Sprint(value)
		switch name {
		case "specversion":
		case "id":
			built.SetID(text)
		case "source":
			built.SetSource(text)
		case "type":
			built.SetType(text)
		case "subject":
			built.SetSubject(text)
		case "dataschema", "schemaurl":
			built.SetDataSchema(text)
		case "datacontenttype":
			mediaType = text
			built.SetDataContentType(text)
		case "time":
			moment, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return nil, err
			}
			built.SetTime(moment)
		default:
			if number, isNumber := value.(float64); isNumber {
				value = int32(number)
			}
			built.SetExtension(name, value)
		}
	}
	if err := setData(&built, mediaType, given.Data); err != nil {
		return nil, err
	}
	return &built, built.Validate()
}

func setData(on *event.Event, mediaType string, given map[string]string) error {
	for form, text := range given {
		switch form {
		case "json":
			return on.SetData(mediaType, json.RawMessage(text))
		case "text":
			if strings.HasPrefix(mediaType, "text/") {
				return on.SetData(mediaType, text)
			}
			return on.SetData(mediaType, []byte(text)) // its XML codec would wrap a string
		default:
			plain, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			return on.SetData(mediaType, plain)
		}
	}
	return nil
}

func sent(written *http.Request, err error) (*message, error) {
	if err != nil {
		return nil, err
	}
	given := &message{Headers: [][2]interface{}{}}
	for name, values := range written.Header {
		for _, value := range values {
			given.Headers = append(given.Headers, [2]interface{}{strings.ToLower(name), []byte(value)})
		}
	}
	if written.Body != nil {
		given.Body, err = io.ReadAll(written.Body)
	}
	return given, err
}

func writeRecord(writing context.Context, of event.Event) (*message, error) {
	written := &sarama.ProducerMessage{}
	if err := kafka.WriteProducerMessage(writing, (*binding.EventMessage)(&of), written); err != nil {
		return nil, err
	}
	given := &message{Headers: [][2]interface{}{}}
	for _, header := range written.Headers {
		given.Headers = append(given.Headers, [2]interface{}{string(header.Key), header.Value})
	}
	var err error
	if given.Key, err = encoded(written.Key); err != nil {
		return nil, err
	}
	given.Value, err = encoded(written.Value)
	return given, err
}

func encoded(value sarama.Encoder) (*[]byte, error) {
	if value == nil {
		return nil, nil
	}
	plain, err := value.Encode()
	return &plain, err
}

func decoded(value interface{}) []byte {
	text, given := value.(string)
	if !given {
		return nil
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return plain
}
