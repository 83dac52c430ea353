package collaboration.server;

import collaboration.protocol.Limits;
import collaboration.protocol.Misuse;
import collaboration.protocol.Misuse.Code;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.ServerWebSocket;
import io.vertx.core.json.JsonObject;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Hold one client's WebSocket, with its limits: what it may send, and how much may wait for it. */
final class Connection {
    /** State when a ping was sent: the stamp it carries, and by the server's clock. */
    private record Ping(long ns, long ms) {
    }

    /** Limit a rate: tokens arrive at a rate up to a maximum, each message takes one. */
    private static final class Bucket {
        private final double perMs;
        private final double most;
        private double level;
        private long atMs;

        Bucket(int perS, int atOnce, long nowMs) {
            perMs = perS / 1e3;
            most = atOnce;
            level = atOnce;
            atMs = nowMs;
        }

        boolean take(long nowMs) {
            level = Math.min(most, level + (nowMs - atMs) * perMs);
            atMs = nowMs;
            if (level < 1) {
                return false;
            }
            level--;
            return true;
        }
    }

    /** Pings that may be unanswered: one a second, for longer than it takes to count as silent. */
    private static final int PINGS_UNANSWERED = 20;
    final ServerWebSocket socket;
    private final Counts counts;
    private final Bucket requests;
    private final Bucket frames;
    private int refusals;
    String user = "";
    final long sinceMs;
    /** The session whose events the client receives, and the session it has asked to join. */
    String session;
    String joining;
    String joinId;
    /** The last join that was answered: it is answered once. */
    String answeredJoin;
    Long joinAfter;
    boolean busy;
    boolean streaming;
    final Set<String> contacts = new HashSet<>();
    /** Messages that wait for their acknowledgement: id → time of arrival. */
    final Map<String, Long> sentNs = new HashMap<>();
    /** Unanswered pings, oldest first. */
    private final Deque<Ping> pings = new ArrayDeque<>();
    private long answeredPingMs;
    private int waiting;
    private long frameTakenMs;
    private boolean dropping;
    private boolean closed;

    Connection(ServerWebSocket socket, Counts counts, long nowMs) {
        this.socket = socket;
        this.counts = counts;
        sinceMs = nowMs;
        answeredPingMs = nowMs;
        requests = new Bucket(Limits.REQUESTS_PER_S, Limits.REQUESTS_AT_ONCE, nowMs);
        frames = new Bucket(Limits.FRAMES_PER_S, Limits.FRAMES_AT_ONCE, nowMs);
        socket.setWriteQueueMaxSize(Limits.FRAMES_WAITING_BYTES);
    }

    /** Take one message off its rate. Throws Misuse: too fast, in the end a flood. */
    void within(boolean frame, long nowMs) throws Misuse {
        if ((frame ? frames : requests).take(nowMs)) {
            refusals = 0;
            return;
        }
        if (++refusals > Limits.REFUSALS) {
            throw new Misuse(Code.FLOOD, Limits.REFUSALS + " messages in a row came too fast");
        }
        throw new Misuse(Code.TOO_FAST, frame ? "at most " + Limits.FRAMES_PER_S + " frames a second"
            : "at most " + Limits.REQUESTS_PER_S + " requests a second");
    }

    /** Take the answer to a ping; returns the time in ms that it took, or -1 where it answers none. */
    double ponged(Buffer pong, long nowMs) {
        answeredPingMs = nowMs;
        Ping answered = null;
        for (Ping ping : pings) {
            if (pong.length() == Long.BYTES && pong.getLong(0) == ping.ns) {
                answered = ping;
            }
        }
        if (answered == null) {
            return -1;
        }
        // A client answers in order: it has read everything before this ping too.
        while (pings.remove() != answered) {
            continue;
        }
        return (System.nanoTime() - answered.ns) / 1e6;
    }

    /**
     * Tell whether the client is too far behind: by the bytes that wait here or, further on, by its
     * unanswered pings.
     */
    private boolean behind(int size, long nowMs) {
        return waiting + size > Limits.FRAMES_WAITING_BYTES
            || !pings.isEmpty() && nowMs - pings.peek().ms > Limits.FRAMES_LATE_MS;
    }

    void send(JsonObject message) {
        send(message.encode());
    }

    void send(String text) {
        if (closed) {
            return;
        }
        int size = text.length();
        waiting += size;
        counts.sentBytes += size;
        socket.writeTextMessage(text).onComplete(done -> waiting -= size);
        if (waiting > Limits.WAITING_BYTES) {
            end(Code.SLOW_READER, "more than " + Limits.WAITING_BYTES + " bytes wait");
        }
    }

    /** Send a frame that arrived at this time, unless the client is too far behind. */
    void frame(Buffer frame, long cameNs, long nowMs) {
        if (closed) {
            return;
        }
        int size = frame.length();
        if (behind(size, nowMs)) {
            counts.framesDropped++;
            if (!dropping) {
                dropping = true;
                frameTakenMs = nowMs;
            } else if (nowMs - frameTakenMs > Limits.NO_FRAME_TAKEN_MS) {
                end(Code.SLOW_READER, "no frame was taken for " + Limits.NO_FRAME_TAKEN_MS + " ms");
            }
            return;
        }
        waiting += size;
        dropping = false;
        counts.sentBytes += size;
        counts.framesOut++;
        socket.writeBinaryMessage(frame).onComplete(done -> {
            waiting -= size;
            counts.frameLatency.add((System.nanoTime() - cameNs) / 1e6);
        });
    }

    void ping(long nowMs) {
        if (!closed && nowMs - answeredPingMs > Limits.SILENCE_MS) {
            end(Code.SILENT, "no ping was answered for " + Limits.SILENCE_MS + " ms");
        } else if (!closed && pings.size() < PINGS_UNANSWERED) {
            Ping ping = new Ping(System.nanoTime(), nowMs);
            pings.add(ping);
            socket.writePing(Buffer.buffer().appendLong(ping.ns));
        }
    }

    /** Answer with an error; where its code says so, close. */
    void refuse(String id, Misuse misuse) {
        counts.refusals++;
        if (misuse.code.close != 0) {
            end(misuse.code, misuse.getMessage());
            return;
        }
        send(new JsonObject().put("type", "error").put("id", id).put("code", misuse.code.word)
            .put("message", misuse.getMessage()));
    }

    /** Count the end of this connection; false: it has ended already. */
    boolean ended(String cause) {
        if (closed) {
            return false;
        }
        closed = true;
        counts.ended(cause);
        return true;
    }

    boolean closed() {
        return closed;
    }

    void end(Code code, String why) {
        if (!ended(code.word)) {
            return;
        }
        socket.writeTextMessage(new JsonObject().put("type", "error").put("code", code.word)
            .put("message", why).encode());
        socket.close((short) code.close, code.word);
    }

    void ok(String id) {
        send(new JsonObject().put("type", "ok").put("id", id));
    }
}
