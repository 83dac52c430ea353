package collaboration.server;

import static collaboration.server.Cloud.await;
import static collaboration.server.Cloud.get;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.client.Client;
import collaboration.protocol.Frame;
import collaboration.protocol.Limits;
import collaboration.protocol.Misuse.Code;
import io.vertx.core.Future;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.ClientWebSocket;
import io.vertx.core.http.WebSocket;
import io.vertx.core.http.WebSocketFrame;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.io.OutputStream;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Send what no honest client sends: each is refused with its error, two others chat on unharmed. */
@Timeout(60)
class HostileTest {
    private static final String HELLO = "{\"type\":\"hello\",\"version\":1,\"user\":\"eve\"}";
    private static final String JOIN = "{\"type\":\"join\",\"id\":\"1\",\"session\":\"table\"}";
    /** Events that a home keeps until a second server has them. */
    private static final int PENDING = 5_000;
    private static Cloud cloud;
    private static Client ann;
    private static Client bob;
    private static double heapBefore;

    @BeforeAll
    static void start() throws Exception {
        cloud = new Cloud(1);
        ann = cloud.client("ann", 0);
        bob = cloud.client("bob", 0);
        get(ann.create("table", "free", "anyone"));
        get(bob.join("table"));
        heapBefore = heapInUse();
    }

    @AfterAll
    static void others() throws Exception {
        for (int i = 0; i < 50; i++) {
            ann.chat("still here " + i);
        }
        Cloud.settled(List.of(ann, bob));
        await("the hostile ones are gone", () -> cloud.metric(0, "collaboration_clients") == 2);
        assertTrue(heapInUse() < heapBefore + 64e6, "memory is bounded");
        assertEquals(0, get(ann.look(one -> one.reconnections)).intValue(), "nobody else lost a connection");
        cloud.close();
    }

    private static double heapInUse() {
        System.gc();
        return cloud.metric(0, "process_heap_bytes");
    }

    /** A WebSocket without manners: notes what comes and how it ends. */
    private static final class Raw {
        final List<String> texts = new CopyOnWriteArrayList<>();
        volatile Short closed;
        final ClientWebSocket socket;

        Raw(String... sends) {
            this(cloud, sends);
        }

        Raw(Cloud cloud, String... sends) {
            socket = cloud.sockets.webSocket();
            socket.textMessageHandler(texts::add);
            socket.exceptionHandler(error -> { });
            socket.closeHandler(ignored -> closed = socket.closeStatusCode() == null ? (short) -1
                : socket.closeStatusCode());
            cloud.others.add(socket);
            get(socket.connect(cloud.ports.get(0), "127.0.0.1", "/v1/connect").toCompletionStage()
                .toCompletableFuture());
            for (String text : sends) {
                socket.writeTextMessage(text);
            }
        }

        boolean has(Code code) {
            return texts.stream().anyMatch(text -> text.contains("\"code\":\"" + code.word + '"'));
        }

        void awaitText(String part) {
            await(() -> part + ", not " + texts, () -> texts.stream().anyMatch(text -> text.contains(part)));
        }

        void awaitCode(Code code) {
            await(() -> "the error " + code.word + ", not " + texts, () -> has(code));
            if (code.close != 0) {
                await("the connection ends", () -> closed != null);
                assertEquals(code.close, closed.intValue());
            }
        }
    }

    private static String hello(String user) {
        return HELLO.replace("eve", user);
    }

    private static String chat(long number) {
        return "{\"type\":\"chat\",\"id\":\"c" + number + "\",\"number\":" + number
            + ",\"sent\":1,\"text\":\"x\"}";
    }

    static Stream<Arguments> wrongTexts() {
        return Stream.of(
            Arguments.of("garbage", Code.NOT_JSON, new String[] {HELLO, "{{{{"}),
            Arguments.of("zero bytes", Code.NOT_JSON, new String[] {HELLO, "\0\0\0"}),
            Arguments.of("a deep nest", Code.NOT_JSON, new String[] {HELLO, "[".repeat(8_000)}),
            Arguments.of("another version", Code.VERSION, new String[] {HELLO.replace(":1,", ":2,")}),
            Arguments.of("no hello", Code.HELLO_MISSING, new String[] {JOIN}),
            Arguments.of("hello twice", Code.HELLO_TWICE, new String[] {HELLO, HELLO}),
            Arguments.of("a wrong name", Code.NAME, new String[] {HELLO.replace("eve", "../eve")}),
            Arguments.of("an unknown request", Code.UNKNOWN_TYPE,
            new String[] {HELLO, "{\"type\":\"sudo\",\"id\":\"1\"}"}),
            Arguments.of("no id", Code.FIELD, new String[] {HELLO, "{\"type\":\"leave\"}"}),
            Arguments.of("chat outside", Code.NOT_IN_SESSION, new String[] {HELLO, chat(1)}),
            Arguments.of("leave outside", Code.NOT_IN_SESSION,
            new String[] {HELLO, "{\"type\":\"leave\",\"id\":\"1\"}"}),
            Arguments.of("stream outside", Code.NOT_IN_SESSION,
                new String[] {HELLO, "{\"type\":\"stream\",\"id\":\"1\",\"on\":true}"}),
            Arguments.of("an unknown session", Code.NO_SESSION,
            new String[] {HELLO, JOIN.replace("table", "none")}),
            Arguments.of("a session that is there", Code.SESSION_EXISTS,
            new String[] {HELLO, JOIN.replace("join", "create")}),
            Arguments.of("a second session", Code.IN_SESSION,
                new String[] {HELLO, JOIN, JOIN.replace("join", "create").replace("table", "another")}),
            Arguments.of("the manager's right", Code.NOT_IN_CONTROL,
                new String[] {HELLO, JOIN, "{\"type\":\"control\",\"id\":\"2\",\"control\":\"manager\"}"}));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("wrongTexts")
    void aWrongTextHasItsError(String what, Code code, String[] texts) {
        Raw raw = new Raw();
        for (String text : texts) {
            int before = raw.texts.size();
            raw.socket.writeTextMessage(text);
            if (text.equals(JOIN) && texts.length > 2) {
                raw.awaitText("\"state\"");
            }
            assertTrue(before <= raw.texts.size());
        }
        raw.awaitCode(code);
        raw.socket.close();
    }

    @Test
    void aServerOnStandbyTakesNobody() throws Exception {
        try (Cloud own = new Cloud(0)) {
            own.add(false, 0);
            new Raw(own).awaitCode(Code.FULL);
        }
    }

    @Test
    void aSessionAndAServerTakeOnlySoMany() throws Exception {
        try (Cloud own = new Cloud(1)) {
            Raw manager = new Raw(own, hello("u0"), JOIN.replace("join", "create"));
            manager.awaitText("\"state\"");
            List<Raw> members = new ArrayList<>();
            for (int i = 1; i < Limits.MEMBERS; i++) {
                members.add(new Raw(own, hello("u" + i), JOIN));
            }
            members.forEach(member -> member.awaitText("\"state\""));
            Raw late = new Raw(own, hello("late"), JOIN);
            late.awaitCode(Code.TOO_MANY);
            manager.socket.writeTextMessage("{\"type\":\"leave\",\"id\":\"2\"}");
            manager.awaitText("\"ok\"");
            late.socket.writeTextMessage(JOIN.replace("\"1\"", "\"2\""));
            late.awaitText("\"state\"");
            for (int there = Limits.MEMBERS + 1; there < Limits.CONNECTIONS;) {
                List<Future<WebSocket>> some = new ArrayList<>();
                for (; some.size() < 100 && there < Limits.CONNECTIONS; there++) {
                    String hello = hello("u" + there);
                    some.add(own.sockets.connect(own.ports.get(0), "127.0.0.1", "/v1/connect")
                        .onSuccess(socket -> {
                            own.others.add(socket);
                            socket.writeTextMessage(hello);
                        }));
                }
                get(Future.all(some).toCompletionStage().toCompletableFuture());
            }
            await("all are connected", () -> own.metric(0, "collaboration_clients") == Limits.CONNECTIONS);
            new Raw(own).awaitCode(Code.FULL);
            late.socket.close();
            await("one has gone", () -> own.metric(0, "collaboration_clients") == Limits.CONNECTIONS - 1);
            new Raw(own, hello("next")).awaitText("\"welcome\"");
        }
    }

    @Test
    void messagesThatNoSecondServerTakesOverloadTheSessionUntilItHasGone() throws Exception {
        try (Cloud own = new Cloud(1)) {
            List<Raw> users = new ArrayList<>();
            while (users.size() * (Limits.REQUESTS_AT_ONCE - 10) <= PENDING) {
                users.add(new Raw(own, hello("u" + users.size()), users.isEmpty()
                    ? JOIN.replace("join", "create") : JOIN));
                users.get(users.size() - 1).awaitText("\"state\"");
            }
            Group mute = own.member("mute", Cloud.SECRET);
            mute.join();
            mute.multicast(new JsonObject().put("t", "status").put("role", "server").put("phase", "ACTIVE")
                .put("clients", 0).put("predicted", 0).put("admits", false));
            await("the server counts on it", () -> own.metric(0, "collaboration_group_members") == 2);
            users.forEach(user -> {
                for (int i = 1; i <= Limits.REQUESTS_AT_ONCE - 10; i++) {
                    user.socket.writeTextMessage(chat(i));
                }
            });
            await("one is refused as too many", () -> users.stream()
                .anyMatch(user -> user.has(Code.OVERLOADED)));
            assertTrue(users.stream().noneMatch(user -> user.texts.stream()
                .anyMatch(text -> text.contains("\"ack\""))),
                "nothing is acknowledged that no second server has");
            Raw other = new Raw(own, hello("other"), "{\"type\":\"status\",\"id\":\"1\",\"busy\":true}");
            other.awaitText("\"ok\"");
            mute.close();
            users.get(0).awaitText("\"ack\"");
        }
    }

    @Test
    void theWorkspaceIsBounded() {
        Raw raw = new Raw(HELLO, JOIN.replace("join", "create").replace("table", "many"));
        for (int i = 1; i <= Limits.KEYS + 1; i++) {
            raw.socket.writeTextMessage("{\"type\":\"sync\",\"id\":\"k" + i + "\",\"number\":" + i
                + ",\"sent\":1,\"key\":\"k" + i + "\",\"value\":\"v\"}");
        }
        raw.awaitCode(Code.TOO_MANY);
        raw.socket.close();
    }

    @Test
    void aGapInNumbersNamesTheNext() {
        Raw raw = new Raw(HELLO, JOIN);
        raw.awaitText("\"state\"");
        raw.socket.writeTextMessage(chat(7));
        raw.awaitCode(Code.NUMBER);
        raw.socket.close();
    }

    @Test
    void aJoinSentAgainIsAnsweredOnce() {
        Raw raw = new Raw(HELLO, JOIN);
        raw.awaitText("\"state\"");
        raw.socket.writeTextMessage(JOIN);
        raw.socket.writeTextMessage(JOIN.replace("}", ",\"after\":0}"));
        raw.socket.writeTextMessage("{\"type\":\"leave\",\"id\":\"2\"}");
        raw.awaitText("\"ok\"");
        // It was delayed until after the leave: the client has gone on since.
        raw.socket.writeTextMessage(JOIN.replace("}", ",\"after\":0}"));
        raw.socket.writeTextMessage("{\"type\":\"status\",\"id\":\"3\",\"busy\":false}");
        raw.awaitText("{\"type\":\"ok\",\"id\":\"3\"}");
        assertEquals(1, raw.texts.stream().filter(one -> one.contains("\"id\":\"1\"")
            && one.contains("\"type\":\"") && (one.contains("\"state\"") || one.contains("\"resumed\"")))
            .count(), raw.texts.toString());
        raw.socket.close();
    }

    @Test
    void framesWithoutStreamAndWithoutHead() {
        Raw raw = new Raw(HELLO, JOIN);
        raw.awaitText("\"state\"");
        raw.socket.writeBinaryMessage(new Frame("", 0, 0, Buffer.buffer("x")).toBuffer());
        raw.awaitCode(Code.NOT_STREAMING);
        raw.socket.writeBinaryMessage(Buffer.buffer("short"));
        raw.awaitCode(Code.FRAME);
        raw.socket.close();
    }

    @Test
    void aHugeMessageHasItsErrorBeforeTheEnd() {
        for (int size : new int[] {Limits.MESSAGE_BYTES + 1, 256 * 1024, 32 << 20}) {
            for (boolean binary : new boolean[] {true, false}) {
                Raw raw = new Raw(HELLO);
                if (binary) {
                    raw.socket.writeFinalBinaryFrame(Buffer.buffer(new byte[size]));
                } else {
                    raw.socket.writeFinalTextFrame("x".repeat(size));
                }
                raw.awaitCode(Code.TOO_LARGE);
            }
        }
    }

    @Test
    void aMessageInManyFramesIsMeasuredAsOne() {
        Raw raw = new Raw(HELLO);
        raw.socket.writeFrame(WebSocketFrame.textFrame("x", false));
        for (int i = 0; i < Limits.MESSAGE_BYTES; i += 1_024) {
            raw.socket.writeFrame(WebSocketFrame.continuationFrame(Buffer.buffer(new byte[1_024]), false));
        }
        raw.awaitCode(Code.TOO_LARGE);
    }

    @Test
    void theLargestMessageAllowedIsRead() {
        Raw raw = new Raw(HELLO);
        raw.socket.writeFinalTextFrame("x".repeat(Limits.MESSAGE_BYTES));
        raw.awaitCode(Code.NOT_JSON);
    }

    @Test
    void aFloodIsRefusedAndThenEnded() {
        Raw raw = new Raw(HELLO);
        for (int i = 0; i < Limits.REQUESTS_AT_ONCE + 10 * Limits.REFUSALS; i++) {
            raw.socket.writeTextMessage("{\"type\":\"status\",\"id\":\"1\",\"busy\":true}");
        }
        raw.awaitCode(Code.TOO_FAST);
        raw.awaitCode(Code.FLOOD);
    }

    @Test
    void aFloodOfFramesIsRefusedAndThenEnded() {
        Raw raw = new Raw(HELLO, JOIN, "{\"type\":\"stream\",\"id\":\"2\",\"on\":true}");
        raw.awaitText("\"state\"");
        raw.socket.writeTextMessage("{\"type\":\"stream\",\"id\":\"3\",\"on\":true}");
        for (int i = 0; i < Limits.FRAMES_AT_ONCE + 10 * Limits.REFUSALS; i++) {
            raw.socket.writeBinaryMessage(new Frame("", i, 0, Buffer.buffer("x")).toBuffer());
        }
        raw.awaitCode(Code.TOO_FAST);
        raw.awaitCode(Code.FLOOD);
    }

    @Test
    void halfOpenConnectionsEnd() throws IOException {
        Raw silent = new Raw();
        List<Socket> open = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            Socket socket = new Socket("127.0.0.1", cloud.ports.get(0));
            socket.setSoTimeout(1_000 * Cloud.BOUND_S);
            socket.getOutputStream().write((i % 2 == 0 ? "" : "GET /v1/conn")
                .getBytes(StandardCharsets.US_ASCII));
            open.add(socket);
        }
        silent.awaitCode(Code.HELLO_LATE);
        for (Socket socket : open) {
            String answer = new String(socket.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
            assertTrue(answer.startsWith("HTTP/1.1 408 "), answer);
            socket.close();
        }
        assertEquals(100, cloud.metric(0, "collaboration_connections_ended_total{cause=\"half-open\"}"));
        assertEquals(1, cloud.metric(0, "collaboration_connections_ended_total{cause=\"hello-late\"}"));
    }

    @Test
    void randomBytesAtThePort() throws IOException {
        Random random = new Random(7);
        for (int i = 0; i < 50; i++) {
            byte[] bytes = new byte[500];
            random.nextBytes(bytes);
            try (Socket socket = new Socket("127.0.0.1", cloud.ports.get(0))) {
                OutputStream out = socket.getOutputStream();
                if (i % 2 == 0) {
                    out.write(("GET /v1/connect HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                        + "Connection: Upgrade\r\n"
                        + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
                        .getBytes(StandardCharsets.US_ASCII));
                }
                out.write(bytes);
                out.flush();
            } catch (IOException e) {
                // The server may have ended it already.
                continue;
            }
        }
        assertTrue(cloud.page(cloud.ports.get(0), "/health").contains("ACTIVE"));
    }

    @Test
    void twoConnectionsOfOneUser() {
        Raw first = new Raw(hello("twin"));
        first.awaitText("\"welcome\"");
        Raw second = new Raw(hello("twin"));
        first.awaitCode(Code.REPLACED);
        second.socket.close();
    }

    @Test
    void whoDoesNotReadLosesFramesAndTheOthersNone() throws Exception {
        try (Cloud own = new Cloud(1)) {
            Client sender = own.client("sender", 0);
            Client reader = own.client("reader", 0);
            Client lazy = own.client("lazy", 0);
            get(sender.create("video", "free", "anyone"));
            get(reader.join("video"));
            for (int i = 0; i < 4; i++) {
                Client other = own.client("other" + i, 0);
                get(other.join("video"));
                get(other.stream(true));
            }
            get(lazy.join("video"));
            lazy.reading(false);
            get(sender.stream(true));
            await("its frames are dropped", () -> own.metric(0, "collaboration_frames_dropped_total") > 10);
            get(sender.stream(false));
            double came = own.metric(0, "collaboration_frames_received_total");
            await("the reader has all of them", () -> get(reader.look(client -> client.framesIn)) >= came);
            assertEquals(0, get(reader.look(client -> client.reconnections)).intValue());
        }
    }

    @Test
    void anotherSecretCrossesNothing() throws Exception {
        Seal other = new Seal("another secret");
        byte[] sealed = other.seal("\5table frame".getBytes(StandardCharsets.US_ASCII), 0, 12);
        assertEquals(null, new Seal(Cloud.SECRET).open(sealed, 0, sealed.length));
        assertEquals(12, other.open(sealed, 0, sealed.length).length);
        sealed[20] ^= 1;
        assertEquals(null, other.open(sealed, 0, sealed.length));
        try (DatagramSocket socket = new DatagramSocket(0, InetAddress.getLoopbackAddress())) {
            for (byte[] bytes : List.of(sealed, new byte[1], new byte[1_400])) {
                socket.send(new DatagramPacket(bytes, bytes.length, InetAddress.getLoopbackAddress(),
                    cloud.framesPorts.get(0)));
            }
        }
        await("all three are refused", () -> cloud.metric(0, "collaboration_crossings_refused_total") == 3);
    }
}
