package collaboration.server;

import collaboration.protocol.SessionState;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Hold one session as this server has it and, if this server is its home, the events ordered but not yet
 * applied.
 */
final class Replica {
    private static final int LOG = 2_000;
    final SessionState state;
    /** Counts homes: events of an earlier home are ignored. */
    long epoch;
    String home;
    /** The last events applied. */
    final Deque<JsonObject> log = new ArrayDeque<>();
    /** Events that arrived before their predecessors. */
    final TreeMap<Long, JsonObject> early = new TreeMap<>();
    long askedAtMs;
    /** When the last event was sent to the others by the home, or the claim by a server that takes over. */
    long sentAtMs;
    /** The state here came from a home that lost: nothing is applied until the state is replaced. */
    boolean distrusted;
    /**
     * At the home: the state with all ordered events, the events no second server has yet, and how far each
     * has come.
     */
    SessionState head;
    final Deque<JsonObject> pending = new ArrayDeque<>();
    final Map<String, Long> held = new HashMap<>();
    /**
     * While this server takes over: the servers whose answers are awaited, and the requests that wait for
     * them.
     */
    Set<String> claiming;
    final List<Runnable> afterClaim = new ArrayList<>();
    final Map<String, Long> awaySinceMs = new HashMap<>();
    long emptySinceMs;
    long orphanSinceMs = Long.MAX_VALUE;
    private Set<String> servers;

    Replica(SessionState state, long epoch, String home) {
        this.state = state;
        this.epoch = epoch;
        this.home = home;
    }

    /** Apply the next event; nothing else changes the state. */
    void apply(JsonObject event) {
        state.apply(event);
        servers = null;
        log.add(event);
        if (log.size() > LOG) {
            log.remove();
        }
    }

    /** Become the home, from what is applied here. */
    void lead(long newEpoch, String self) {
        epoch = newEpoch;
        home = self;
        head = state.copy();
        pending.clear();
        held.clear();
        early.clear();
        claiming = null;
        distrusted = false;
    }

    /** Follow another home. */
    void follow(long newEpoch, String newHome) {
        epoch = newEpoch;
        home = newHome;
        head = null;
        pending.clear();
        held.clear();
        claiming = null;
        afterClaim.clear();
    }

    /** Return the events after an order; null: the log does not reach back that far. */
    List<JsonObject> after(long order) {
        if (order > state.order() || state.order() - order > log.size()) {
            return null;
        }
        List<JsonObject> found = new ArrayList<>();
        for (JsonObject event : log) {
            if (event.getLong("order") > order) {
                found.add(event);
            }
        }
        return found;
    }

    JsonObject snapshot() {
        return new JsonObject().put("t", "snapshot").put("session", state.name).put("epoch", epoch)
            .put("home", home).put("state", state.toJson());
    }

    JsonObject claim() {
        return new JsonObject().put("session", state.name).put("epoch", epoch + 1)
            .put("order", state.order());
    }

    /** Return the servers where members sit. */
    Set<String> servers() {
        if (servers == null) {
            servers = new HashSet<>(state.members().values());
        }
        return servers;
    }

    static JsonArray list(List<JsonObject> events) {
        return new JsonArray(new ArrayList<>(events));
    }
}
