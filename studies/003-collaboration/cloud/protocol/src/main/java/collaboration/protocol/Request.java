package collaboration.protocol;

import collaboration.protocol.Misuse.Code;
import io.vertx.core.json.DecodeException;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/** Read and check one text message of a client; its form needs no further check. */
public record Request(Type type, String id, JsonObject body) {
    /** Name each kind of request, with its word in the protocol. */
    public enum Type {
        HELLO, CONTACTS, STATUS, CREATE, JOIN, LEAVE, INVITE, CONTROL, CHAT, SYNC, STREAM;

        final String word = name().toLowerCase(Locale.ROOT);
    }

    private static final Pattern NAME = Pattern.compile("[\\p{L}\\p{N}][\\p{L}\\p{N}._-]*");

    /** Read a request. Throws Misuse with the error to answer with. */
    public static Request read(String text) throws Misuse {
        JsonObject body;
        try {
            body = new JsonObject(text);
        } catch (DecodeException | ClassCastException | NullPointerException e) {
            throw new Misuse(Code.NOT_JSON, "a message is one JSON object");
        }
        Type type = typeOf(body.getValue("type"));
        String id = type == Type.HELLO ? "" : text(body, "id", 1, Limits.NAME_BYTES);
        switch (type) {
            case HELLO -> {
                number(body, "version", 0, Integer.MAX_VALUE);
                name(body, "user");
            }
            case CONTACTS -> names(body);
            case STATUS -> flag(body, "busy");
            case CREATE -> {
                name(body, "session");
                choice(body, "control", "free", "manager");
                choice(body, "invite", "anyone", "manager");
            }
            case JOIN -> {
                name(body, "session");
                if (body.containsKey("after")) {
                    number(body, "after", 0, Long.MAX_VALUE);
                }
            }
            case LEAVE -> { }
            case INVITE -> name(body, "user");
            case CONTROL -> {
                choice(body, "control", "free", "manager");
                choice(body, "invite", "anyone", "manager");
            }
            case CHAT -> {
                numbered(body);
                text(body, "text", 1, Limits.TEXT_BYTES);
            }
            case SYNC -> {
                numbered(body);
                text(body, "key", 1, Limits.NAME_BYTES);
                if (body.getValue("value") != null) {
                    text(body, "value", 0, Limits.VALUE_BYTES);
                }
            }
            case STREAM -> flag(body, "on");
        }
        return new Request(type, id, body);
    }

    private static Type typeOf(Object word) throws Misuse {
        for (Type type : Type.values()) {
            if (type.word.equals(word)) {
                return type;
            }
        }
        throw new Misuse(Code.UNKNOWN_TYPE, "there is no request of this type");
    }

    private static void numbered(JsonObject body) throws Misuse {
        number(body, "number", 1, Long.MAX_VALUE);
        number(body, "sent", 0, Long.MAX_VALUE);
    }

    private static void number(JsonObject body, String field, long least, long most) throws Misuse {
        Object value = body.getValue(field);
        if (!(value instanceof Integer || value instanceof Long)
            || ((Number) value).longValue() < least || ((Number) value).longValue() > most) {
            throw new Misuse(Code.FIELD, field + " is a whole number of at least " + least);
        }
    }

    private static String text(JsonObject body, String field, int least, int most) throws Misuse {
        if (body.getValue(field) instanceof String value) {
            int size = value.getBytes(StandardCharsets.UTF_8).length;
            if (size >= least && size <= most) {
                return value;
            }
        }
        throw new Misuse(Code.FIELD, field + " is a text of " + least + " to " + most + " bytes");
    }

    private static void flag(JsonObject body, String field) throws Misuse {
        if (!(body.getValue(field) instanceof Boolean)) {
            throw new Misuse(Code.FIELD, field + " is true or false");
        }
    }

    private static void choice(JsonObject body, String field, String usual, String other) throws Misuse {
        Object value = body.getValue(field);
        if (value == null) {
            body.put(field, usual);
        } else if (!usual.equals(value) && !other.equals(value)) {
            throw new Misuse(Code.FIELD, field + " is " + usual + " or " + other);
        }
    }

    private static void name(JsonObject body, String field) throws Misuse {
        if (!(body.getValue(field) instanceof String value) || !isName(value)) {
            throw new Misuse(Code.NAME, field + " is 1 to " + Limits.NAME_BYTES
                + " bytes: a letter or digit, then letters, digits, dots, - and _");
        }
    }

    private static void names(JsonObject body) throws Misuse {
        if (!(body.getValue("users") instanceof JsonArray users) || users.size() > Limits.CONTACTS) {
            throw new Misuse(Code.FIELD, "users is a list of at most " + Limits.CONTACTS + " names");
        }
        for (Object user : users) {
            if (!(user instanceof String value) || !isName(value)) {
                throw new Misuse(Code.NAME, "users holds something that is not a name");
            }
        }
    }

    /** Return the names of a contacts request. */
    public List<String> users() {
        List<String> found = new ArrayList<>();
        body.getJsonArray("users").forEach(user -> found.add((String) user));
        return found;
    }

    /** Tell whether a text may be the name of a user or session. */
    public static boolean isName(String text) {
        return text.getBytes(StandardCharsets.UTF_8).length <= Limits.NAME_BYTES && NAME.matcher(text)
            .matches();
    }
}
