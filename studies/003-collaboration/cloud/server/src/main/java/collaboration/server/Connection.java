package collaboration.server;

import collaboration.protocol.Limits;
import collaboration.protocol.Misuse;
import collaboration.protocol.Misuse.Code;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.ServerWebSocket;
import io.vertx.core.json.JsonObject;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Hold one client's WebSocket, with its limits: what it may send, and how much may wait for it. */
final class Connection {
    /** Fill with so many a second up to a most; each message takes one. */
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

    final ServerWebSocket socket;
    private final Counts counts;
    private final Bucket requests;
    private final Bucket frames;
    private int refusals;
    String user = "";
    final long sinceMs;
    /** The session whose events it gets, and the one that it has asked to join. */
    String session;
    String joining;
    String joinId;
    Long joinAfter;
    boolean busy;
    boolean streaming;
    final Set<String> contacts = new HashSet<>();
    /** Its messages that wait for their acknowledgement: id → when they came. */
    final Map<String, Long> sentNs = new HashMap<>();
    long answeredPingMs;
    private int waiting;
    private long frameTakenMs;
    private boolean dropping;
    boolean closed;

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
            counts.slowReaders++;
            end(Code.SLOW_READER, "more than " + Limits.WAITING_BYTES + " bytes wait");
        }
    }

    /** Send a frame that came at this time, unless too much waits. */
    void frame(Buffer frame, long cameNs, long nowMs) {
        if (closed) {
            return;
        }
        int size = frame.length();
        if (waiting + size > Limits.FRAMES_WAITING_BYTES) {
            counts.framesDropped++;
            if (!dropping) {
                dropping = true;
                frameTakenMs = nowMs;
            } else if (nowMs - frameTakenMs > Limits.NO_FRAME_TAKEN_MS) {
                counts.slowReaders++;
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
        } else if (!closed && waiting < Limits.WAITING_BYTES) {
            socket.writePing(Buffer.buffer().appendLong(System.nanoTime()));
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

    void end(Code code, String why) {
        if (closed) {
            return;
        }
        closed = true;
        socket.writeTextMessage(new JsonObject().put("type", "error").put("code", code.word).put("message", why).encode());
        socket.close((short) code.close, code.word);
    }

    void ok(String id) {
        send(new JsonObject().put("type", "ok").put("id", id));
    }
}
