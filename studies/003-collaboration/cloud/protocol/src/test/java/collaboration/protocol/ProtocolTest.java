package collaboration.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.protocol.Misuse.Code;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ProtocolTest {
    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "not json                                                    | NOT_JSON",
        "[1]                                                         | NOT_JSON",
        "null                                                        | NOT_JSON",
        "{}                                                          | UNKNOWN_TYPE",
        "{\"type\":7}                                                | UNKNOWN_TYPE",
        "{\"type\":\"fly\",\"id\":\"1\"}                             | UNKNOWN_TYPE",
        "{\"type\":\"hello\",\"user\":\"ann\"}                       | FIELD",
        "{\"type\":\"hello\",\"version\":1,\"user\":\"\"}            | NAME",
        "{\"type\":\"hello\",\"version\":1,\"user\":\"a b\"}         | NAME",
        "{\"type\":\"hello\",\"version\":1,\"user\":7}               | NAME",
        "{\"type\":\"leave\"}                                        | FIELD",
        "{\"type\":\"join\",\"id\":\"1\",\"session\":\"s\",\"after\":-1} | FIELD",
        "{\"type\":\"chat\",\"id\":\"1\",\"number\":0,\"sent\":1,\"text\":\"x\"} | FIELD",
        "{\"type\":\"chat\",\"id\":\"1\",\"number\":1,\"sent\":1,\"text\":\"\"} | FIELD",
        "{\"type\":\"sync\",\"id\":\"1\",\"number\":1,\"sent\":1,\"key\":\"k\",\"value\":{}} | FIELD",
        "{\"type\":\"stream\",\"id\":\"1\",\"on\":\"yes\"}           | FIELD",
        "{\"type\":\"create\",\"id\":\"1\",\"session\":\"s\",\"control\":\"mine\"} | FIELD",
        "{\"type\":\"contacts\",\"id\":\"1\",\"users\":[\"a\",3]}    | NAME",
    })
    void misuseOfFormHasItsError(String text, Code code) {
        assertEquals(code, assertThrows(Misuse.class, () -> Request.read(text)).code);
    }

    @Test
    void sizesAreBounded() throws Misuse {
        String most = "x".repeat(Limits.TEXT_BYTES);
        JsonObject chat = new JsonObject().put("type", "chat").put("id", "1").put("number", 1).put("sent", 1);
        assertEquals(most, Request.read(chat.copy().put("text", most).encode()).body().getString("text"));
        assertThrows(Misuse.class, () -> Request.read(chat.copy().put("text", most + "x").encode()));
        assertTrue(Request.isName("ä".repeat(Limits.NAME_BYTES / 2)));
        assertThrows(Misuse.class, () -> Request.read(new JsonObject().put("type", "hello").put("version", 1)
            .put("user", "ä".repeat(Limits.NAME_BYTES / 2) + "b").encode()));
    }

    @Test
    void framesAreReadAsWritten() throws Misuse {
        Frame frame = new Frame("ann", 7, 123_456_789_012L, Buffer.buffer("picture"));
        assertEquals(frame, Frame.read(frame.toBuffer()));
        Buffer other = frame.toBuffer().setByte(0, (byte) 2);
        assertEquals(Code.FRAME, assertThrows(Misuse.class, () -> Frame.read(other)).code);
        for (int length = 0; length <= Frame.HEAD_BYTES + 3; length++) {
            Buffer cut = frame.toBuffer().slice(0, length);
            assertThrows(Misuse.class, () -> Frame.read(cut));
        }
    }

    @Test
    void theTableOfFramesIsOfTheStatedVideo() {
        assertEquals(250, FrameSizes.count());
        double kbitPerS = IntStream.range(0, 250).map(FrameSizes::of).sum() * 8 / 1000.0 / 10;
        assertEquals(180, kbitPerS, 5);
        assertTrue(IntStream.range(0, 250).map(FrameSizes::of).max()
            .orElseThrow() < Limits.MESSAGE_BYTES / 2);
        assertEquals(FrameSizes.of(3), FrameSizes.of(253));
    }

    @Test
    void equalEventsMakeEqualStatesAndAnyDifferenceShows() {
        SessionState one = new SessionState("s");
        apply(one, "created", "ann", new JsonObject().put("control", "free").put("invite", "anyone"));
        apply(one, "joined", "bob", new JsonObject());
        apply(one, "invited", "ann", new JsonObject().put("guest", "cid"));
        apply(one, "chat", "bob", new JsonObject().put("number", 1).put("text", "hi"));
        apply(one, "sync", "bob", new JsonObject().put("number", 2).put("key", "k").put("value", "v"));
        SessionState two = one.copy();
        assertEquals(one.digest(), two.digest());
        assertEquals(one.toJson(), two.toJson());
        assertEquals(2, two.number("bob"));
        apply(two, "sync", "ann", new JsonObject().put("number", 1).put("key", "k"));
        apply(one, "chat", "ann", new JsonObject().put("number", 1).put("text", "hi"));
        assertNotEquals(one.digest(), two.digest());
        apply(one, "left", "ann", new JsonObject());
        assertEquals("bob", one.manager());
        apply(one, "left", "bob", new JsonObject());
        assertEquals("", one.manager());
        assertThrows(IllegalStateException.class, () ->
            one.apply(new JsonObject().put("order", 99L).put("kind", "left")));
    }

    @Test
    void thePageStatesEveryLimitAndError() throws IOException {
        String page = Files.readString(Path.of("README.md"));
        for (Code code : Code.values()) {
            String close = code.close == 0 ? "–" : Integer.toString(code.close);
            assertTrue(page.contains("| `" + code.word + "` | " + close + " |"), code.word);
        }
        for (Request.Type type : Request.Type.values()) {
            assertTrue(page.contains("`" + type.word + "`"), type.word);
        }
        for (long limit : new long[] {Limits.MESSAGE_BYTES, Limits.STATE_BYTES, Limits.NAME_BYTES,
            Limits.TEXT_BYTES, Limits.VALUE_BYTES, Limits.KEYS, Limits.CHATS_KEPT, Limits.NUMBERS_KEPT,
            Limits.MEMBERS, Limits.CONTACTS, Limits.REQUESTS_PER_S, Limits.REQUESTS_AT_ONCE,
            Limits.FRAMES_PER_S, Limits.FRAMES_AT_ONCE, Limits.REFUSALS, Limits.HELLO_WITHIN_MS,
            Limits.REQUEST_WITHIN_MS, Limits.FRAMES_LATE_MS, Limits.SILENCE_MS, Limits.WAITING_BYTES,
            Limits.FRAMES_WAITING_BYTES, Limits.NO_FRAME_TAKEN_MS, Limits.AWAY_MS, Limits.CONNECTIONS}) {
            assertTrue(page.contains(String.format("%,d", limit)), "the limit " + limit);
        }
    }

    private static void apply(SessionState state, String kind, String user, JsonObject more) {
        JsonObject event = more.copy().put("order", state.order() + 1).put("kind", kind).put("user", user);
        state.apply(new JsonObject(event.encode()));
    }
}
