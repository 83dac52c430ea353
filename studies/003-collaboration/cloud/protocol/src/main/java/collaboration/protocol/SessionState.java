package collaboration.protocol;

import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Hold what all members of a session see, as of one number in the session's order. Servers and clients apply
 * the same events by the same rules, so that equal order means equal state; {@link #digest()} proves it.
 */
public final class SessionState {
    public final String name;
    private long order;
    private String manager = "";
    private String control = "free";
    private String invite = "anyone";
    /** Member → its server, in the order they joined. */
    private final Map<String, String> members = new LinkedHashMap<>();
    private final Set<String> invited = new TreeSet<>();
    private final Map<String, String> workspace = new TreeMap<>();
    private final Deque<JsonObject> chats = new ArrayDeque<>();
    /** Sender → its last number, least recent first. */
    private final Map<String, Long> numbers = new LinkedHashMap<>();

    public SessionState(String name) {
        this.name = name;
    }

    /** Apply the next event. Throws IllegalStateException where it is not the next. */
    public void apply(JsonObject event) {
        if (event.getLong("order") != order + 1) {
            throw new IllegalStateException(name + " stands at " + order + ", the event is "
                + event.getLong("order"));
        }
        order++;
        String user = event.getString("user");
        switch (event.getString("kind")) {
            case "created" -> {
                manager = user;
                control = event.getString("control");
                invite = event.getString("invite");
                members.put(user, event.getString("server", ""));
            }
            case "joined" -> {
                members.put(user, event.getString("server", ""));
                invited.remove(user);
                if (manager.isEmpty()) {
                    manager = user;
                }
            }
            case "left" -> {
                members.remove(user);
                if (user.equals(manager)) {
                    manager = members.isEmpty() ? "" : members.keySet().iterator().next();
                }
            }
            case "invited" -> invited.add(event.getString("guest"));
            case "rules" -> {
                control = event.getString("control");
                invite = event.getString("invite");
            }
            case "chat" -> {
                remember(user, event.getLong("number"));
                chats.add(new JsonObject().put("order", order).put("user", user)
                    .put("text", event.getString("text")));
                if (chats.size() > Limits.CHATS_KEPT) {
                    chats.remove();
                }
            }
            case "sync" -> {
                remember(user, event.getLong("number"));
                String value = event.getString("value");
                if (value == null) {
                    workspace.remove(event.getString("key"));
                } else {
                    workspace.put(event.getString("key"), value);
                }
            }
            default -> throw new IllegalStateException("there is no event of kind "
                + event.getString("kind"));
        }
    }

    private void remember(String user, long number) {
        numbers.remove(user);
        numbers.put(user, number);
        if (numbers.size() > Limits.NUMBERS_KEPT) {
            numbers.remove(numbers.keySet().iterator().next());
        }
    }

    public long order() {
        return order;
    }

    public String manager() {
        return manager;
    }

    public String control() {
        return control;
    }

    public String invite() {
        return invite;
    }

    /** Return member → server. */
    public Map<String, String> members() {
        return members;
    }

    public Map<String, String> workspace() {
        return workspace;
    }

    public Set<String> invited() {
        return invited;
    }

    public List<JsonObject> chats() {
        return new ArrayList<>(chats);
    }

    /** Return the number of this sender's last message; 0: none. */
    public long number(String user) {
        return numbers.getOrDefault(user, 0L);
    }

    /** Encode it, servers of members included. */
    public JsonObject toJson() {
        JsonArray people = new JsonArray();
        members.forEach((user, server) -> people.add(new JsonArray().add(user).add(server)));
        JsonArray last = new JsonArray();
        numbers.forEach((user, number) -> last.add(new JsonArray().add(user).add(number)));
        return new JsonObject().put("session", name).put("order", order).put("manager", manager)
            .put("control", control).put("invite", invite).put("members", people)
            .put("invited", new JsonArray(new ArrayList<>(invited)))
            .put("workspace", new JsonObject(new LinkedHashMap<>(workspace)))
            .put("chats", new JsonArray(new ArrayList<>(chats))).put("numbers", last);
    }

    /** Decode one. */
    public static SessionState fromJson(JsonObject json) {
        SessionState state = new SessionState(json.getString("session"));
        state.order = json.getLong("order");
        state.manager = json.getString("manager");
        state.control = json.getString("control");
        state.invite = json.getString("invite");
        for (Object one : json.getJsonArray("members")) {
            state.members.put(((JsonArray) one).getString(0), ((JsonArray) one).getString(1));
        }
        json.getJsonArray("invited").forEach(user -> state.invited.add((String) user));
        json.getJsonObject("workspace").forEach(one -> state.workspace.put(one.getKey(),
            (String) one.getValue()));
        json.getJsonArray("chats").forEach(chat -> state.chats.add((JsonObject) chat));
        for (Object one : json.getJsonArray("numbers")) {
            state.numbers.put(((JsonArray) one).getString(0), ((JsonArray) one).getLong(1));
        }
        return state;
    }

    /** Return a copy that shares nothing. */
    public SessionState copy() {
        return fromJson(toJson());
    }

    /** Return SHA-256 over all fields as netstrings, in the order that protocol/README.md states. */
    public String digest() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        netstring(bytes, name, Long.toString(order), manager, control, invite);
        new TreeSet<>(members.keySet()).forEach(user -> netstring(bytes, "member", user));
        invited.forEach(user -> netstring(bytes, "invited", user));
        workspace.forEach((key, value) -> netstring(bytes, "key", key, value));
        chats.forEach(chat -> netstring(bytes, "chat", chat.getLong("order").toString(),
            chat.getString("user"), chat.getString("text")));
        new TreeMap<>(numbers).forEach((user, number) -> netstring(bytes, "number", user, number.toString()));
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes.toByteArray()));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void netstring(ByteArrayOutputStream bytes, String... texts) {
        for (String text : texts) {
            byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
            bytes.writeBytes((utf8.length + ":").getBytes(StandardCharsets.US_ASCII));
            bytes.writeBytes(utf8);
            bytes.write(',');
        }
    }
}
