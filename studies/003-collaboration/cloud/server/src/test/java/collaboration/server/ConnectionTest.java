package collaboration.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.protocol.Limits;
import collaboration.protocol.Misuse.Code;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.ServerWebSocket;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Hold a client that does not read, or does not answer, against its limits; the clock is the test's. */
class ConnectionTest {
    private static final Buffer FRAME = Buffer.buffer(new byte[900]);
    private final Counts counts = new Counts();
    private final List<Buffer> pings = new ArrayList<>();
    private final List<String> texts = new ArrayList<>();
    private boolean taken = true;
    private int frames;
    private int closed;
    private final Connection client = new Connection((ServerWebSocket) Proxy.newProxyInstance(
        ConnectionTest.class.getClassLoader(), new Class<?>[] {ServerWebSocket.class},
        (self, method, values) -> {
            switch (method.getName()) {
                case "writePing" -> pings.add((Buffer) values[0]);
                case "writeTextMessage" -> texts.add((String) values[0]);
                case "writeBinaryMessage" -> frames++;
                case "close" -> closed = (short) values[0];
                default -> {
                    return self;
                }
            }
            return taken ? Future.succeededFuture() : Promise.promise().future();
        }), counts, 0);

    private void assertEnded(Code code) {
        assertEquals(code.close, closed);
        assertTrue(texts.get(texts.size() - 1).contains("\"" + code.word + "\""), texts.toString());
        StringBuilder page = new StringBuilder();
        counts.print(page);
        assertTrue(page.toString().contains("collaboration_connections_ended_total{cause=\"" + code.word
            + "\"} 1\n"));
    }

    @Test
    void aClientThatAnswersNoPingIsSilent() {
        for (long now = 1_000; now <= Limits.SILENCE_MS; now += 1_000) {
            client.ping(now);
        }
        assertFalse(client.closed());
        client.ping(Limits.SILENCE_MS + 1);
        assertEnded(Code.SILENT);
    }

    @Test
    void framesThatOnlyTheNetworkTakesAreDroppedAndThenTheConnectionEnds() {
        for (long now = 1_000; now <= 4_000; now += 1_000) {
            client.ping(now);
            client.frame(FRAME, 0, now);
        }
        assertEquals(4, frames);
        client.frame(FRAME, 0, 4_001);
        assertEquals(1, counts.framesDropped, "the first ping was not answered for longer than allowed");
        client.ponged(pings.get(1), 4_002);
        client.frame(FRAME, 0, 4_003);
        assertEquals(5, frames, "the third ping is not yet old");
        client.ponged(Buffer.buffer("12345678"), 6_002);
        client.frame(FRAME, 0, 6_002);
        assertEquals(2, counts.framesDropped, "an answer to no ping does not help");
        client.frame(FRAME, 0, 6_002 + Limits.NO_FRAME_TAKEN_MS);
        assertFalse(client.closed());
        client.frame(FRAME, 0, 6_003 + Limits.NO_FRAME_TAKEN_MS);
        assertEnded(Code.SLOW_READER);
    }

    @Test
    void whatWaitsForAClientIsBounded() {
        taken = false;
        for (int i = 0; i < 1_000; i++) {
            client.frame(FRAME, 0, 0);
        }
        assertEquals(Limits.FRAMES_WAITING_BYTES / FRAME.length(), frames);
        assertEquals(1_000 - frames, counts.framesDropped);
        for (int i = 0; !client.closed(); i++) {
            assertTrue(i < Limits.WAITING_BYTES / 1_000, "it ends in time");
            client.send("x".repeat(1_000));
        }
        assertEnded(Code.SLOW_READER);
    }
}
