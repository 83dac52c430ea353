package collaboration.server;

import collaboration.protocol.Limits;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** Keep who is online where. Each server publishes its own users; a user's latest connection counts. */
final class Presence {
    /** Hold the last known state of a user. */
    record Entry(String server, String status, String session, long sinceMs, long goneMs) {
        JsonObject toJson(String user) {
            return new JsonObject().put("user", user).put("status", status).put("session", session)
                .put("since", sinceMs);
        }
    }

    private final String self;
    private final Map<String, Entry> users = new HashMap<>();
    private final Consumer<JsonObject> multicast;
    /** Called with user and entry at each change that a watcher may see. */
    private final BiConsumer<String, Entry> changed;
    /**
     * Whether a server is in the group now. Users of a server that is not are away, and after a while
     * offline.
     */
    private final Predicate<String> known;

    Presence(String self, Predicate<String> known, Consumer<JsonObject> multicast, BiConsumer<String,
             Entry> changed) {
        this.self = self;
        this.known = known;
        this.multicast = multicast;
        this.changed = changed;
    }

    /** Set and publish the state of a user of this server. */
    void set(String user, String status, String session, long sinceMs) {
        Entry entry = new Entry(self, status, session, sinceMs, 0);
        if (put(user, entry)) {
            multicast.accept(new JsonObject().put("t", "presence")
                .put("users", new JsonArray().add(entry.toJson(user))));
        }
    }

    private boolean put(String user, Entry entry) {
        Entry old = users.get(user);
        if (old != null && old.goneMs() == 0 && !old.server().equals(entry.server())
            && old.sinceMs() > entry.sinceMs()) {
            return false;
        }
        if (entry.status().equals("offline")) {
            users.remove(user);
        } else {
            users.put(user, entry);
        }
        changed.accept(user, entry);
        return true;
    }

    /** Receive the users of another server. */
    void received(String from, JsonArray list) {
        for (Object one : list) {
            JsonObject user = (JsonObject) one;
            Entry entry = new Entry(from, user.getString("status"), user.getString("session"),
                user.getLong("since"), 0);
            Entry old = users.get(user.getString("user"));
            if (entry.status().equals("offline") && (old == null || !old.server().equals(from))) {
                continue;
            }
            put(user.getString("user"), entry);
        }
    }

    /** Return all users of this server, for a server that does not know them. */
    JsonObject own() {
        JsonArray found = new JsonArray();
        users.forEach((user, entry) -> {
            if (entry.server().equals(self)) {
                found.add(entry.toJson(user));
            }
        });
        return new JsonObject().put("t", "presence").put("users", found);
    }

    private boolean reachable(Entry entry) {
        return entry.server().equals(self) || known.test(entry.server());
    }

    void tick(long nowMs) {
        List<String> lost = new ArrayList<>();
        for (Map.Entry<String, Entry> one : users.entrySet()) {
            Entry entry = one.getValue();
            if (reachable(entry) != (entry.goneMs() == 0)) {
                one.setValue(new Entry(entry.server(), entry.status(), entry.session(), entry.sinceMs(),
                    reachable(entry) ? 0 : nowMs));
            } else if (!reachable(entry) && nowMs - entry.goneMs() > Limits.AWAY_MS) {
                lost.add(one.getKey());
            }
        }
        for (String user : lost) {
            Entry entry = users.remove(user);
            changed.accept(user, new Entry(entry.server(), "offline", null, entry.sinceMs(), 0));
        }
    }

    Entry of(String user) {
        return users.get(user);
    }

    /** Tell whether a user is connected somewhere and in this session. */
    boolean present(String user, String session) {
        Entry entry = users.get(user);
        return entry != null && session.equals(entry.session()) && reachable(entry);
    }

    int count() {
        return users.size();
    }
}
