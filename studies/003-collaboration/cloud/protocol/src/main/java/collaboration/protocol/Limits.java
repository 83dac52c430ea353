package collaboration.protocol;

/** Hold the protocol's limits; protocol/README.md states each of them. */
public final class Limits {
    public static final int VERSION = 1;
    /** Bytes of one WebSocket message from a client, text or binary. */
    public static final int MESSAGE_BYTES = 16 * 1024;
    /** Bytes of one WebSocket message to a client: the state of a session is the largest. */
    public static final int STATE_BYTES = 2 * 1024 * 1024;
    public static final int NAME_BYTES = 40;
    public static final int TEXT_BYTES = 2_000;
    public static final int VALUE_BYTES = 1_000;
    public static final int KEYS = 256;
    public static final int CHATS_KEPT = 100;
    public static final int NUMBERS_KEPT = 2_000;
    public static final int MEMBERS = 200;
    public static final int CONTACTS = 200;
    /** Requests a second of one client, and how many at once after a pause. */
    public static final int REQUESTS_PER_S = 200;
    public static final int REQUESTS_AT_ONCE = 400;
    /** Frames a second of one client, and how many at once. */
    public static final int FRAMES_PER_S = 40;
    public static final int FRAMES_AT_ONCE = 80;
    /** Refusals for speed in a row before the connection is closed. */
    public static final int REFUSALS = 200;
    /** A connection that has sent no whole HTTP request within this time is closed. */
    public static final long REQUEST_WITHIN_MS = 5_000;
    public static final long HELLO_WITHIN_MS = 5_000;
    /** A connection that has not answered a ping for longer is closed. */
    public static final long SILENCE_MS = 15_000;
    /** Bytes that wait for a client that does not read before its connection is closed. */
    public static final int WAITING_BYTES = 1024 * 1024;
    /** Bytes that wait for a client before frames to it are dropped. */
    public static final int FRAMES_WAITING_BYTES = 64 * 1024;
    /** Frames to a client that has left a ping unanswered for longer are dropped. */
    public static final long FRAMES_LATE_MS = 3_000;
    /** A client to which every frame was dropped for longer is closed. */
    public static final long NO_FRAME_TAKEN_MS = 10_000;
    /** A member that is away for longer leaves its session. */
    public static final long AWAY_MS = 5_000;
    public static final int CONNECTIONS = 2_000;

    private Limits() {
    }
}
