import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.cloudevents.CloudEvent;
import io.cloudevents.SpecVersion;
import io.cloudevents.core.builder.CloudEventBuilder;
import io.cloudevents.core.message.MessageReader;
import io.cloudevents.http.HttpMessageFactory;
import io.cloudevents.jackson.JsonFormat;
import io.cloudevents.kafka.KafkaMessageFactory;
import io.cloudevents.types.Time;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.Base64;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * The official Java SDK, asked over stdin: one JSON object a line, one answer a line.
 * Header bytes of HTTP become text as servlet containers make them: Latin-1.
 */
public final class Opinion {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

  public static void main(String[] arguments) throws IOException {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      out.println(JSON.writeValueAsString(answered(JSON.readTree(line))));
      out.flush();
    }
  }

  private static ObjectNode answered(JsonNode asked) {
    ObjectNode answer = NODES.objectNode();
    try {
      boolean reads = asked.get("do").textValue().equals("read");
      if (batch(asked)) {
        return answer.put("unable", "no batches");
      }
      if (reads) {
        answer.putArray("events").add(seen(read(asked)));
      } else {
        answer.set("message", write(asked));
      }
    } catch (Exception | StackOverflowError error) {
      Throwable cause = error.getCause() == null ? error : error.getCause();
      answer.put("error", error + " / " + cause.getMessage());
    }
    return answer;
  }

  private static boolean batch(JsonNode asked) {
    if (asked.path("mode").asText().equals("batch")) {
      return true;
    }
    for (JsonNode pair : asked.path("message").path("headers")) {
      boolean named = pair.get(0).textValue().equalsIgnoreCase("content-type");
      String value = pair.get(1).isNull() ? "" : latin(pair.get(1)).toLowerCase();
      if (named && value.startsWith("application/cloudevents-batch")) {
        return asked.get("binding").textValue().equals("http");
      }
    }
    return false;
  }

  private static CloudEvent read(JsonNode asked) {
    JsonNode message = asked.get("message");
    if (asked.get("binding").textValue().equals("kafka")) {
      RecordHeaders headers = new RecordHeaders();
      message.get("headers").forEach(pair -> headers.add(pair.get(0).textValue(), bytes(pair.get(1))));
      return KafkaMessageFactory.createReader(headers, bytes(message.get("value"))).toEvent();
    }
    MessageReader reader =
        HttpMessageFactory.createReader(
            (BiConsumer<String, String> each) ->
                message.get("headers").forEach(pair -> each.accept(pair.get(0).textValue(), latin(pair.get(1)))),
            bytes(message.get("body")));
    return reader.toEvent();
  }

  private static ObjectNode seen(CloudEvent event) {
    ObjectNode attributes = NODES.objectNode();
    for (String name : event.getAttributeNames()) {
      put(attributes, name, event.getAttribute(name));
    }
    for (String name : event.getExtensionNames()) {
      put(attributes, name, event.getExtension(name));
    }
    ObjectNode seen = NODES.objectNode();
    seen.set("attributes", attributes);
    if (event.getData() == null) {
      seen.putNull("data");
      return seen;
    }
    seen.putObject("data").put("base64", base64(event.getData().toBytes()));
    return seen;
  }

  private static void put(ObjectNode attributes, String name, Object value) {
    if (value instanceof Boolean flag) {
      attributes.put(name, flag);
    } else if (value instanceof Integer number) {
      attributes.put(name, number);
    } else if (value instanceof byte[] plain) {
      attributes.put(name, base64(plain));
    } else if (value instanceof OffsetDateTime moment) {
      attributes.put(name, Time.writeTime(moment)); // toString would leave seconds out
    } else if (value != null) {
      attributes.put(name, value.toString());
    }
  }

  private static ObjectNode write(JsonNode asked) {
    CloudEvent event = build(asked.get("events").get(0), asked.get("version").textValue());
    boolean structured = asked.get("mode").textValue().equals("structured");
    ObjectNode message = NODES.objectNode();
    ArrayNode headers = message.putArray("headers");
    if (asked.get("binding").textValue().equals("kafka")) {
      var writer = KafkaMessageFactory.<String>createWriter("events", (String) null);
      ProducerRecord<String, byte[]> sent =
          structured ? writer.writeStructured(event, new JsonFormat()) : writer.writeBinary(event);
      for (Header header : sent.headers()) {
        headers.addArray().add(header.key()).add(base64(header.value()));
      }
      message.putNull("key").put("value", base64(sent.value()));
      return message;
    }
    message.put("body", "");
    var writer =
        HttpMessageFactory.createWriter(
            (name, value) -> headers.addArray().add(name).add(base64(value.getBytes(StandardCharsets.UTF_8))),
            body -> message.put("body", body == null ? "" : base64(body)));
    if (structured) {
      writer.writeStructured(event, new JsonFormat());
    } else {
      writer.writeBinary(event);
    }
    return message;
  }

  private static CloudEvent build(JsonNode given, String version) {
    CloudEventBuilder builder = CloudEventBuilder.fromSpecVersion(SpecVersion.parse(version));
    for (Map.Entry<String, JsonNode> attribute : given.get("attributes").properties()) {
      JsonNode value = attribute.getValue();
      String text = value.asText();
      switch (attribute.getKey()) {
        case "specversion" -> {}
        case "id" -> builder.withId(text);
        case "source" -> builder.withSource(URI.create(text));
        case "type" -> builder.withType(text);
        case "subject" -> builder.withSubject(text);
        case "time" -> builder.withTime(OffsetDateTime.parse(text));
        case "dataschema", "schemaurl" -> builder.withDataSchema(URI.create(text));
        case "datacontenttype" -> builder.withDataContentType(text);
        default -> extend(builder, attribute.getKey(), value);
      }
    }
    JsonNode data = given.get("data");
    if (!data.isNull()) {
      String form = data.fieldNames().next();
      String text = data.get(form).textValue();
      builder.withData(form.equals("base64") ? bytes(data.get(form)) : text.getBytes(StandardCharsets.UTF_8));
    }
    return builder.build();
  }

  private static void extend(CloudEventBuilder builder, String name, JsonNode value) {
    if (value.isBoolean()) {
      builder.withExtension(name, value.booleanValue());
    } else if (value.isInt()) {
      builder.withExtension(name, value.intValue());
    } else {
      builder.withExtension(name, value.textValue());
    }
  }

  private static byte[] bytes(JsonNode value) {
    return value.isNull() ? null : Base64.getDecoder().decode(value.textValue());
  }

  private static String latin(JsonNode value) {
    return new String(bytes(value), StandardCharsets.ISO_8859_1);
  }

  private static String base64(byte[] plain) {
    return plain == null ? null : Base64.getEncoder().encodeToString(plain);
  }
}
