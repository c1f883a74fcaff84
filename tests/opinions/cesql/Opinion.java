import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.cloudevents.CloudEvent;
import io.cloudevents.core.builder.CloudEventBuilder;
import io.cloudevents.sql.EvaluationException;
import io.cloudevents.sql.EvaluationRuntime;
import io.cloudevents.sql.Expression;
import io.cloudevents.sql.Parser;
import io.cloudevents.sql.Result;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.Map;

/**
 * CloudEvents SQL of the official Java SDK, asked over stdin: {"expression", "event"} a line. The
 * answer has "value" and "errors" of a whole evaluation, and "first", the error that stops one which
 * fails fast (null: none); or "parse", or "raised" where the engine itself broke.
 */
public final class Opinion {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final EvaluationRuntime RUNTIME = EvaluationRuntime.getDefault();

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
    ObjectNode answer = JsonNodeFactory.instance.objectNode();
    Expression expression;
    try {
      expression = Parser.parseDefault(asked.get("expression").textValue());
    } catch (RuntimeException | StackOverflowError error) {
      return answer.put("parse", error.toString()); // a NullPointerException, where no token is at fault
    }
    try {
      CloudEvent event = build(asked.get("event"));
      Result result = expression.evaluate(RUNTIME, event);
      put(answer, result.value());
      ArrayNode errors = answer.putArray("errors");
      result.causes().forEach(cause -> errors.add(cause.getKind().name()));
      answer.put("first", first(expression, event));
    } catch (Exception | StackOverflowError error) {
      answer.put("raised", error.toString());
    }
    return answer;
  }

  private static String first(Expression expression, CloudEvent event) {
    try {
      expression.tryEvaluate(RUNTIME, event);
      return null;
    } catch (EvaluationException error) {
      return error.getKind().name();
    }
  }

  private static void put(ObjectNode answer, Object value) {
    if (value instanceof Boolean flag) {
      answer.put("value", flag);
    } else if (value instanceof Integer number) {
      answer.put("value", number);
    } else {
      answer.put("value", String.valueOf(value));
    }
  }

  private static CloudEvent build(JsonNode attributes) {
    CloudEventBuilder builder = CloudEventBuilder.v1();
    for (Map.Entry<String, JsonNode> attribute : attributes.properties()) {
      JsonNode value = attribute.getValue();
      String text = value.asText();
      switch (attribute.getKey()) {
        case "specversion" -> {}
        case "id" -> builder.withId(text);
        case "source" -> builder.withSource(URI.create(text));
        case "type" -> builder.withType(text);
        case "subject" -> builder.withSubject(text);
        case "time" -> builder.withTime(OffsetDateTime.parse(text));
        case "dataschema" -> builder.withDataSchema(URI.create(text));
        default -> extend(builder, attribute.getKey(), value);
      }
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
}
