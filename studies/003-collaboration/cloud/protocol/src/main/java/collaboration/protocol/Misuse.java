package collaboration.protocol;

/** Refuse a client's message with an error of the protocol and a sentence on what was wrong. */
public final class Misuse extends Exception {
    /**
     * The table of errors in protocol/README.md, in its order. Where {@code close} is not 0, the connection
     * ends.
     */
    public enum Code {
        VERSION("version", 4001),
        HELLO_MISSING("hello-missing", 4002),
        HELLO_LATE("hello-late", 4003),
        NOT_JSON("not-json", 4004),
        SLOW_READER("slow-reader", 4005),
        FLOOD("flood", 4006),
        SILENT("silent", 4007),
        REPLACED("replaced", 4008),
        FULL("full", 4009),
        TOO_LARGE("too-large", 4010),
        UNKNOWN_TYPE("unknown-type", 0),
        FIELD("field", 0),
        NAME("name", 0),
        TOO_FAST("too-fast", 0),
        HELLO_TWICE("hello-twice", 0),
        NO_SESSION("no-session", 0),
        SESSION_EXISTS("session-exists", 0),
        IN_SESSION("in-session", 0),
        NOT_IN_SESSION("not-in-session", 0),
        NOT_INVITED("not-invited", 0),
        NOT_AVAILABLE("not-available", 0),
        NOT_IN_CONTROL("not-in-control", 0),
        NUMBER("number", 0),
        NOT_STREAMING("not-streaming", 0),
        FRAME("frame", 0),
        TOO_MANY("too-many", 0),
        OVERLOADED("overloaded", 0),
        REFUSED("refused", 0);

        public final String word;
        public final int close;

        Code(String word, int close) {
            this.word = word;
            this.close = close;
        }

        /** Find a code by its word. */
        public static Code of(String word) {
            for (Code code : values()) {
                if (code.word.equals(word)) {
                    return code;
                }
            }
            return REFUSED;
        }
    }

    public final Code code;

    public Misuse(Code code, String what) {
        super(what);
        this.code = code;
    }
}
