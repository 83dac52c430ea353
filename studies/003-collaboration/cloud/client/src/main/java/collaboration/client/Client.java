package collaboration.client;

import collaboration.protocol.Frame;
import collaboration.protocol.FrameSizes;
import collaboration.protocol.Limits;
import collaboration.protocol.Misuse;
import collaboration.protocol.SessionState;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.WebSocket;
import io.vertx.core.http.WebSocketClient;
import io.vertx.core.http.WebSocketClientOptions;
import io.vertx.core.http.WebSocketConnectOptions;
import io.vertx.core.json.JsonObject;
import java.net.URI;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Act as one user of the cloud, for tests: connect, join again after a break, send unacknowledged messages
 * again, and record each violation of the protocol. Everything runs on one Vert.x context.
 */
public final class Client {
    /** Observe a client; called on its context. */
    public interface Listener {
        default void event(Client client, JsonObject event) {
        }

        default void frame(Client client, Frame frame) {
        }

        default void attached(Client client) {
        }

        default void error(Client client, JsonObject error) {
        }
    }

    private static final long AGAIN_MS = 500;
    private static final long TICK_MS = 100;
    private static final long ATTEMPT_MS = 1_000;
    private static final int DELAYS = 100_000;
    private static final int PAYLOAD = 8_192;
    private static final Buffer RANDOM = random();
    public final String user;
    private final Vertx vertx;
    private final WebSocketClient sockets;
    private final Context context;
    private Supplier<Future<URI>> places;
    private final Listener listener;
    private WebSocket socket;
    private boolean wanted = true;
    private boolean ready;
    private boolean leaving;
    private long ids;
    private long attempts;
    private URI moved;
    private String session;
    private SessionState state;
    /** Awaited answers: by id. */
    private final Map<String, CompletableFuture<JsonObject>> answers = new LinkedHashMap<>();
    /** Messages without an acknowledgement, in order, and when each was last sent. */
    private final Map<String, JsonObject> unacknowledged = new LinkedHashMap<>();
    private final Map<String, Long> sentAtMs = new LinkedHashMap<>();
    private long number;
    /** The highest number that was acknowledged: a later state must not stand below it. */
    private long acknowledgedNumber;
    private String joinId;
    private JsonObject creation;
    private CompletableFuture<JsonObject> joined;
    private long streamTimer = -1;
    private int frames;
    private long brokenAtNs;

    /**
     * Times from each frame's stamp to its arrival; valid if all clients are in one process. The first
     * 100,000.
     */
    private final List<Double> delaysMs = new ArrayList<>();

    /** Violations of the protocol, in words. */
    public final List<String> faults = new ArrayList<>();
    /** The last error that the server answered with; null: none. */
    public JsonObject lastError;
    public long acknowledged;
    public long events;
    public long framesIn;
    public long framesOut;
    public long resent;
    public long reconnections;
    /** Time in ms from each break of an attached connection until the client is attached again. */
    public final List<Double> backMs = new ArrayList<>();

    public Client(Vertx vertx, WebSocketClient sockets, Context context, String user,
                  Supplier<Future<URI>> places, Listener listener) {
        this.vertx = vertx;
        this.sockets = sockets;
        this.context = context;
        this.user = user;
        this.places = places;
        this.listener = listener;
    }

    /** Return options for sockets that take the largest state. */
    public static WebSocketClientOptions options() {
        return new WebSocketClientOptions().setMaxFrameSize(Limits.STATE_BYTES)
            .setMaxMessageSize(Limits.STATE_BYTES).setClosingTimeout(2).setMaxConnections(10_000)
            .setConnectTimeout(1_000).setTcpNoDelay(true);
    }

    private static Buffer random() {
        byte[] bytes = new byte[PAYLOAD];
        ThreadLocalRandom.current().nextBytes(bytes);
        return Buffer.buffer(bytes);
    }

    /** Change how servers are found. */
    public void findBy(Supplier<Future<URI>> other) {
        context.runOnContext(ignored -> places = other);
    }

    /** Connect; completes once the server has said welcome. */
    public CompletableFuture<JsonObject> connect() {
        CompletableFuture<JsonObject> welcome = new CompletableFuture<>();
        context.runOnContext(ignored -> {
            answers.put("welcome", welcome);
            open();
            vertx.setPeriodic(TICK_MS, timer -> {
                if (!wanted) {
                    vertx.cancelTimer(timer);
                } else {
                    again();
                }
            });
        });
        return welcome;
    }

    private void open() {
        URI there = moved;
        moved = null;
        long attempt = ++attempts;
        // An attempt may never end: a server that dies during a handshake leaves it open.
        vertx.setTimer(ATTEMPT_MS, timer -> {
            if (attempt == attempts && socket == null && wanted) {
                open();
            }
        });
        Future<URI> place = there != null ? Future.succeededFuture(there) : places.get();
        place.compose(uri -> sockets.connect(new WebSocketConnectOptions().setHost(uri.getHost())
            .setPort(uri.getPort()).setURI(uri.getPath()).setTimeout(ATTEMPT_MS)))
            .onComplete(done -> context.runOnContext(ignored -> {
                boolean current = attempt == attempts && wanted;
                if (done.succeeded() && current) {
                    opened(done.result());
                } else if (current) {
                    vertx.setTimer(50, timer -> open());
                } else if (done.succeeded()) {
                    done.result().close();
                }
            }));
    }

    private void opened(WebSocket now) {
        socket = now;
        now.exceptionHandler(error -> { });
        now.textMessageHandler(text -> {
            if (socket == now) {
                received(new JsonObject(text));
            }
        });
        now.binaryMessageHandler(this::frame);
        now.closeHandler(ignored -> {
            if (socket == now) {
                broke();
            }
        });
        write(new JsonObject().put("type", "hello").put("version", Limits.VERSION).put("user", user));
    }

    private void broke() {
        if (ready) {
            brokenAtNs = System.nanoTime();
        }
        ready = false;
        socket = null;
        // Requests are not repeated: that is up to the caller.
        List<String> open = answers.keySet().stream().filter(id -> !id.equals("welcome")).toList();
        open.forEach(id -> answer(id, new JsonObject().put("type", "error").put("code", "disconnected")));
        if (wanted) {
            reconnections++;
            open();
        }
    }

    private void write(JsonObject message) {
        if (socket != null && !socket.isClosed()) {
            socket.writeTextMessage(message.encode());
        }
    }

    private void received(JsonObject message) {
        switch (message.getString("type")) {
            case "welcome" -> {
                answer("welcome", message);
                if (session != null) {
                    sendJoin();
                } else {
                    ready = true;
                }
            }
            case "state" -> state(message);
            case "resumed" -> resumed(message);
            case "event" -> event(message);
            case "ack" -> {
                sentAtMs.remove(message.getString("id"));
                JsonObject arrived = unacknowledged.remove(message.getString("id"));
                if (arrived != null) {
                    acknowledged++;
                    acknowledgedNumber = Math.max(acknowledgedNumber, arrived.getLong("number"));
                }
                answer(message.getString("id"), message);
            }
            case "move" -> move(message.getString("url"));
            case "error" -> error(message);
            default -> answer(message.getString("id"), message);
        }
    }

    private void move(String url) {
        moved = url == null ? null : URI.create(url);
        WebSocket old = socket;
        broke();
        old.close();
    }

    private void error(JsonObject message) {
        String id = message.getString("id");
        lastError = message;
        listener.error(this, message);
        if (id != null && id.equals(joinId) && joined != null) {
            String code = message.getString("code");
            if (code.equals("no-session") && state != null) {
                vertx.setTimer(100, timer -> sendJoin());
                return;
            }
            CompletableFuture<JsonObject> waits = joined;
            joined = null;
            joinId = null;
            creation = null;
            session = state == null ? null : session;
            waits.complete(message);
        } else if (id != null && unacknowledged.containsKey(id)) {
            if (!List.of("not-in-session", "too-fast", "overloaded", "no-session", "number")
                .contains(message.getString("code"))) {
                faults.add(user + ": " + message.encode());
                unacknowledged.remove(id);
            }
        } else {
            answer(id, message);
        }
    }

    private void answer(String id, JsonObject message) {
        CompletableFuture<JsonObject> waits = id == null ? null : answers.remove(id);
        if (waits != null) {
            waits.complete(message);
        }
    }

    private void state(JsonObject message) {
        SessionState came = SessionState.fromJson(message);
        if (!came.digest().equals(message.getString("digest"))) {
            faults.add(user + ": the state at " + came.order() + " has another digest than the server says");
        }
        if (state != null && came.order() < state.order()) {
            faults.add(user + ": the session went back from " + state.order() + " to " + came.order());
        }
        if (message.getLong("number") < acknowledgedNumber) {
            faults.add(user + ": message " + acknowledgedNumber
                + " was acknowledged, the session has only those up to " + message.getLong("number"));
        }
        state = came;
        number = Math.max(number, message.getLong("number"));
        attached(message);
    }

    private void resumed(JsonObject message) {
        attached(message);
    }

    private void attached(JsonObject message) {
        if (joinId == null || !joinId.equals(message.getString("id"))) {
            return;
        }
        ready = true;
        if (brokenAtNs != 0) {
            backMs.add((System.nanoTime() - brokenAtNs) / 1e6);
            brokenAtNs = 0;
        }
        CompletableFuture<JsonObject> waits = joined;
        joined = null;
        joinId = null;
        creation = null;
        if (streamTimer >= 0) {
            write(new JsonObject().put("type", "stream").put("id", id()).put("on", true));
        }
        unacknowledged.forEach((one, sent) -> resend(one, sent, System.currentTimeMillis()));
        listener.attached(this);
        if (waits != null) {
            waits.complete(message);
        }
    }

    private void event(JsonObject event) {
        if (state == null || !event.getString("session").equals(session)) {
            return;
        }
        if (event.getLong("order") != state.order() + 1) {
            faults.add(user + ": event " + event.getLong("order") + " came after " + state.order());
            return;
        }
        state.apply(event);
        events++;
        listener.event(this, event);
        if (event.getString("kind").equals("left") && event.getString("user").equals(user) && !leaving) {
            // The server took this client for away.
            ready = false;
            sendJoin();
        }
    }

    private void frame(Buffer bytes) {
        framesIn++;
        try {
            Frame frame = Frame.read(bytes);
            if (delaysMs.size() < DELAYS) {
                delaysMs.add(System.nanoTime() / 1e6 - frame.stampUs() / 1e3);
            }
            listener.frame(this, frame);
        } catch (Misuse misuse) {
            faults.add(user + ": " + misuse.getMessage());
        }
    }

    /** Send again what has waited too long for its acknowledgement. */
    private void again() {
        long now = System.currentTimeMillis();
        if (!ready) {
            if (joinId != null && now - sentAtMs.getOrDefault(joinId, now) > AGAIN_MS) {
                sendJoin();
            }
            return;
        }
        unacknowledged.forEach((id, message) -> {
            if (now - sentAtMs.get(id) > AGAIN_MS) {
                resend(id, message, now);
            }
        });
    }

    private void resend(String id, JsonObject message, long now) {
        sentAtMs.put(id, now);
        resent++;
        write(message);
    }

    private String id() {
        return Long.toString(++ids);
    }

    /** Send any request, and complete with its answer. */
    public CompletableFuture<JsonObject> ask(JsonObject request) {
        CompletableFuture<JsonObject> answer = new CompletableFuture<>();
        context.runOnContext(ignored -> {
            String id = id();
            answers.put(id, answer);
            write(request.put("id", id));
        });
        return answer;
    }

    /** Create a session as its manager and first member. */
    public CompletableFuture<JsonObject> create(String name, String control, String invite) {
        CompletableFuture<JsonObject> answer = new CompletableFuture<>();
        context.runOnContext(ignored -> {
            joined = answer;
            session = name;
            ready = false;
            joinId = id();
            creation = new JsonObject().put("type", "create").put("id", joinId).put("session", name)
                .put("control", control).put("invite", invite);
            sendJoin();
        });
        return answer;
    }

    /** Join a session; completes with its state, or with the error. */
    public CompletableFuture<JsonObject> join(String name) {
        CompletableFuture<JsonObject> answer = new CompletableFuture<>();
        context.runOnContext(ignored -> {
            joined = answer;
            session = name;
            ready = false;
            sendJoin();
        });
        return answer;
    }

    private void sendJoin() {
        joinId = joinId == null ? id() : joinId;
        sentAtMs.put(joinId, System.currentTimeMillis());
        if (creation != null) {
            write(creation);
            return;
        }
        JsonObject join = new JsonObject().put("type", "join").put("id", joinId).put("session", session);
        if (state != null && state.name.equals(session)) {
            join.put("after", state.order());
        }
        write(join);
    }

    /** Leave the session. */
    public CompletableFuture<JsonObject> leave() {
        context.runOnContext(ignored -> leaving = true);
        return ask(new JsonObject().put("type", "leave")).thenApply(answer -> {
            context.runOnContext(ignored -> {
                leaving = false;
                session = null;
                state = null;
                number = 0;
                acknowledgedNumber = 0;
            });
            return answer;
        });
    }

    /** Send a chat message, repeatedly until it is acknowledged. */
    public void chat(String text) {
        message(new JsonObject().put("type", "chat").put("text", text));
    }

    /** Set a key of the workspace, or remove it (null). */
    public void sync(String key, String value) {
        message(new JsonObject().put("type", "sync").put("key", key).put("value", value));
    }

    private void message(JsonObject message) {
        context.runOnContext(ignored -> {
            String id = user + "-" + ++number;
            message.put("id", id).put("number", number).put("sent", System.currentTimeMillis() * 1_000);
            unacknowledged.put(id, message);
            sentAtMs.put(id, System.currentTimeMillis());
            if (ready) {
                write(message);
            }
        });
    }

    /** Stream the table's frames, 25 a second, or stop. */
    public CompletableFuture<JsonObject> stream(boolean on) {
        context.runOnContext(ignored -> {
            if (on && streamTimer < 0) {
                frames = 0;
                streamTimer = vertx.setPeriodic(1 + ThreadLocalRandom.current().nextInt(40),
                    1_000 / FrameSizes.FRAMES_PER_S, timer -> nextFrame());
            } else if (!on && streamTimer >= 0) {
                vertx.cancelTimer(streamTimer);
                streamTimer = -1;
            }
        });
        return ask(new JsonObject().put("type", "stream").put("on", on));
    }

    private void nextFrame() {
        int size = FrameSizes.of(frames);
        if (ready && socket != null && !socket.writeQueueFull()) {
            framesOut++;
            socket.writeBinaryMessage(new Frame("", frames, System.nanoTime() / 1_000,
                RANDOM.slice(0, size)).toBuffer());
        }
        frames++;
    }

    /** Ask the client on its own context. */
    public <T> CompletableFuture<T> look(java.util.function.Function<Client, T> question) {
        CompletableFuture<T> answer = new CompletableFuture<>();
        context.runOnContext(ignored -> answer.complete(question.apply(this)));
        return answer;
    }

    /** Do something on the client's own context. */
    public void run(Consumer<Client> action) {
        context.runOnContext(ignored -> action.accept(this));
    }

    /** Return the frames' delays, to be read and cleared on the client's context only. */
    public List<Double> delaysMs() {
        return delaysMs;
    }

    /** Return the state of the session; on the client's context only. */
    public SessionState state() {
        return state;
    }

    /** Tell whether it is connected and, if it wants to be in a session, a member. */
    public boolean ready() {
        return ready;
    }

    /** Describe where it stands, for a failure's message; on the client's context only. */
    public String standing() {
        return user + (ready ? "" : " not ready") + (state == null ? " without a state" : " at "
            + state.order()) + ", " + unacknowledged.size() + " unacknowledged, " + reconnections
            + " reconnections" + (lastError == null ? "" : ", last error " + lastError)
            + (faults.isEmpty() ? "" : ", " + faults.get(0));
    }

    /** Count messages that wait for their acknowledgement. */
    public int waiting() {
        return unacknowledged.size();
    }

    /** Stop or resume reading. */
    public void reading(boolean on) {
        context.runOnContext(ignored -> {
            if (socket != null && on) {
                socket.resume();
            } else if (socket != null) {
                socket.pause();
            }
        });
    }

    /** Close the connection for good. */
    public void close() {
        context.runOnContext(ignored -> {
            wanted = false;
            ready = false;
            if (streamTimer >= 0) {
                vertx.cancelTimer(streamTimer);
            }
            if (socket != null) {
                socket.resume();
                socket.close();
            }
        });
    }
}
