package collaboration.server;

import collaboration.protocol.Limits;
import collaboration.protocol.Misuse;
import collaboration.protocol.Misuse.Code;
import collaboration.protocol.SessionState;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.zip.CRC32;

/**
 * Order sessions between servers. Each session has a home that numbers its events and sends them to all
 * servers that hold sessions; an event is applied at the home once a second server has it. When a home dies,
 * another collects what the others have and goes on. Not thread-safe: all calls come from one event loop.
 */
final class Sessions {
    /** Connect the sessions with clients, presence and the other servers. */
    interface Outside {
        void send(String to, JsonObject message);

        /** An event was applied here. */
        void applied(Replica session, JsonObject event);

        /** The state here was replaced whole. */
        void replaced(Replica session);

        /**
         * A request of a client of this server was refused, or (refusal null) had been carried out before.
         */
        void answered(String session, String user, String id, Misuse refusal);

        boolean present(String user, String session);

        long nowMs();
    }

    private static final int PENDING = 5_000;
    private static final long ASK_AGAIN_MS = 300;
    /** After this long without an answer from another server, send the last event or the claim again. */
    private static final long SEND_AGAIN_MS = 1_000;
    /** Events that follow a gap and are kept until it is filled; later ones are asked for again. */
    private static final int EARLY = 2_000;
    private static final long EMPTY_MS = 60_000;
    private static final int HOPS = 3;
    /** After this long without a home, any server that has the session claims it. */
    private static final long ORPHAN_MS = 2_000;
    final String self;
    final Map<String, Replica> all = new HashMap<>();
    /** Sessions whose state is not here yet: when it was last asked for. */
    private final Map<String, Long> askedForMs = new HashMap<>();
    private final Outside outside;
    private final Counts counts;
    /** The other servers that hold sessions. */
    private Set<String> holders = new HashSet<>();
    /** Those holders that may become a session's home: neither loading nor leaving. */
    private Set<String> able = new HashSet<>();
    private boolean holding;

    Sessions(String self, Outside outside, Counts counts) {
        this.self = self;
        this.outside = outside;
        this.counts = counts;
    }

    /** Start to hold sessions, or, after a drain, stop. */
    void hold(boolean now) {
        holding = now;
        if (!now) {
            all.clear();
            askedForMs.clear();
        }
    }

    boolean holding() {
        return holding;
    }

    /** Submit a client's request, an event without its order, to the session's home. */
    void submit(String session, JsonObject event) {
        submitted(new JsonObject().put("t", "submit").put("session", session).put("origin", self)
            .put("hops", 0).put("event", event));
    }

    private void submitted(JsonObject message) {
        String session = message.getString("session");
        Replica replica = all.get(session);
        if (replica == null && !"created".equals(message.getJsonObject("event").getString("kind"))) {
            answer(message, new Misuse(Code.NO_SESSION, "there is no session " + session));
            return;
        }
        String home = replica == null ? chosen(session, withSelf()) : replica.home;
        if (replica != null && replica.claiming != null) {
            if (replica.afterClaim.size() >= PENDING) {
                answer(message, new Misuse(Code.OVERLOADED,
                    "too many messages wait for the session's new home"));
            } else {
                replica.afterClaim.add(() -> submitted(message));
            }
        } else if (home.equals(self)) {
            order(session, message);
        } else if (replica != null && home.equals(message.getString("from"))) {
            // Two servers each take the other for the home: the lesser name claims it, clients of the other
            // ask again.
            if (self.compareTo(home) < 0 && replica.claiming == null) {
                claim(List.of(replica));
            }
        } else if (message.getInteger("hops") < HOPS) {
            outside.send(home, message.copy().put("hops", message.getInteger("hops") + 1));
        }
    }

    private void answer(JsonObject message, Misuse refusal) {
        JsonObject event = message.getJsonObject("event");
        if (message.getString("origin").equals(self)) {
            outside.answered(message.getString("session"), event.getString("user"), event.getString("id"),
                refusal);
            return;
        }
        JsonObject answer = new JsonObject().put("t", "answer").put("session", message.getString("session"))
            .put("user", event.getString("user")).put("id", event.getString("id"));
        if (refusal != null) {
            answer.put("code", refusal.code.word).put("message", refusal.getMessage());
        }
        outside.send(message.getString("origin"), answer);
    }

    private void order(String session, JsonObject message) {
        JsonObject event = message.getJsonObject("event").copy();
        Replica replica = all.get(session);
        try {
            if (replica == null) {
                replica = new Replica(new SessionState(session), 1, self);
                replica.lead(1, self);
                all.put(session, replica);
            } else if (isCarriedOut(replica, event)) {
                if (!isPending(replica, event)) {
                    answer(message, null);
                }
                return;
            }
            allowed(replica, event);
        } catch (Misuse refusal) {
            answer(message, refusal);
            return;
        }
        event.put("order", replica.head.order() + 1);
        replica.head.apply(event);
        replica.pending.add(event);
        replica.sentAtMs = outside.nowMs();
        JsonObject notice = ordered(replica, event);
        holders.forEach(holder -> outside.send(holder, notice.copy()));
        settle(replica);
    }

    private static JsonObject ordered(Replica replica, JsonObject event) {
        return new JsonObject().put("t", "event").put("session", replica.state.name)
            .put("epoch", replica.epoch).put("event", event);
    }

    private static boolean isCarriedOut(Replica replica, JsonObject event) {
        SessionState head = replica.head;
        String user = event.getString("user");
        return switch (event.getString("kind")) {
            case "created" -> head.manager().equals(user) && head.members().containsKey(user);
            case "joined" -> event.getString("server").equals(head.members().get(user));
            case "left" -> !head.members().containsKey(user);
            case "invited" -> head.invited().contains(event.getString("guest"));
            case "chat", "sync" -> event.getLong("number") <= head.number(user);
            default -> false;
        };
    }

    /** Tell whether the event was ordered but not applied yet: its answer is sent once it is. */
    private static boolean isPending(Replica replica, JsonObject event) {
        for (JsonObject one : replica.pending) {
            boolean same = one.getString("kind").equals(event.getString("kind"))
                && one.getString("user").equals(event.getString("user"));
            if (same && (!event.containsKey("number") || event.getLong("number") <= one.getLong("number"))) {
                return true;
            }
        }
        return false;
    }

    private static void allowed(Replica replica, JsonObject event) throws Misuse {
        SessionState head = replica.head;
        String user = event.getString("user");
        String kind = event.getString("kind");
        boolean manages = user.equals(head.manager());
        if (replica.pending.size() >= PENDING) {
            throw new Misuse(Code.OVERLOADED, "too many messages wait for a second server");
        }
        if (kind.equals("created")) {
            if (head.order() > 0) {
                throw new Misuse(Code.SESSION_EXISTS, "the session " + head.name + " is there already");
            }
            return;
        }
        if (kind.equals("joined")) {
            if (!head.members().containsKey(user) && head.members().size() >= Limits.MEMBERS) {
                throw new Misuse(Code.TOO_MANY, "a session takes " + Limits.MEMBERS + " members");
            }
            boolean open = head.invite().equals("anyone") || head.invited().contains(user) || head.manager()
                .isEmpty();
            if (!open && !head.members().containsKey(user)) {
                throw new Misuse(Code.NOT_INVITED, "only those whom the manager invited may join");
            }
            return;
        }
        if (!head.members().containsKey(user)) {
            throw new Misuse(Code.NOT_IN_SESSION, "you are no member of " + head.name);
        }
        if (kind.equals("invited") && head.invite().equals("manager") && !manages) {
            throw new Misuse(Code.NOT_INVITED, "only the manager invites");
        }
        if (kind.equals("rules") && !manages) {
            throw new Misuse(Code.NOT_IN_CONTROL, "only the manager may do this");
        }
        if (kind.equals("sync") && head.control().equals("manager") && !manages) {
            throw new Misuse(Code.NOT_IN_CONTROL, "only the manager may change the workspace");
        }
        if (event.containsKey("number") && event.getLong("number") != head.number(user) + 1) {
            throw new Misuse(Code.NUMBER, "your next number is " + (head.number(user) + 1));
        }
        if (kind.equals("sync") && event.getString("value") != null && head.workspace().size() >= Limits.KEYS
            && !head.workspace().containsKey(event.getString("key"))) {
            throw new Misuse(Code.TOO_MANY, "the workspace takes " + Limits.KEYS + " keys");
        }
    }

    /** Apply at the home the events that a second server has; if there is no second server, all. */
    private void settle(Replica replica) {
        long safe = replica.head.order();
        if (!holders.isEmpty()) {
            safe = holders.stream().mapToLong(holder -> replica.held.getOrDefault(holder, 0L)).max()
                .orElse(0);
        }
        while (!replica.pending.isEmpty() && replica.pending.peek().getLong("order") <= safe) {
            applied(replica, replica.pending.remove());
        }
    }

    private void applied(Replica replica, JsonObject event) {
        replica.apply(event);
        counts.events++;
        outside.applied(replica, event);
    }

    /** Handle a message of another server; false: it does not concern sessions. */
    boolean received(String from, JsonObject message) {
        switch (message.getString("t")) {
            case "submit" -> submitted(message);
            case "answer" -> outside.answered(message.getString("session"), message.getString("user"),
                message.getString("id"), message.containsKey("code")
                    ? new Misuse(Code.of(message.getString("code")), message.getString("message")) : null);
            case "event" -> event(from, message);
            case "held" -> held(from, message);
            case "resend" -> resend(from, message);
            case "snapshot" -> snapshot(message);
            case "claim" -> claimed(from, message);
            case "claimed" -> answeredClaim(from, message);
            case "home" -> home(from, message);
            case "end" -> end(message);
            case "hold-me" -> {
                if (holders.contains(from)) {
                    outside.send(from, new JsonObject().put("t", "held-you"));
                }
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    private void event(String from, JsonObject message) {
        if (!holding) {
            return;
        }
        String session = message.getString("session");
        JsonObject event = message.getJsonObject("event");
        long epoch = message.getLong("epoch");
        Replica replica = all.get(session);
        if (replica == null) {
            if (event.getLong("order") > 1) {
                // The state that is asked for holds this event too, or the event comes again behind it.
                Long asked = askedForMs.get(session);
                if (asked == null || outside.nowMs() - asked >= ASK_AGAIN_MS) {
                    askedForMs.put(session, outside.nowMs());
                    outside.send(from, new JsonObject().put("t", "resend").put("session", session)
                        .put("after", -1));
                }
                return;
            }
            replica = new Replica(new SessionState(session), epoch, from);
            all.put(session, replica);
        }
        if (epoch < replica.epoch || (epoch == replica.epoch && !from.equals(replica.home))) {
            return;
        }
        if (epoch > replica.epoch) {
            replica.follow(epoch, from);
        }
        if (event.getLong("order") > replica.state.order()) {
            replica.early.put(event.getLong("order"), event);
            if (replica.early.size() > EARLY) {
                replica.early.pollLastEntry();
            }
        }
        if (replica.distrusted || !drain(replica)) {
            ask(replica);
        }
        if (replica.distrusted) {
            return;
        }
        outside.send(from, new JsonObject().put("t", "held").put("session", session)
            .put("epoch", replica.epoch).put("order", replica.state.order()));
    }

    /** Apply early events that follow now; false: there is a gap. */
    private boolean drain(Replica replica) {
        replica.early.headMap(replica.state.order(), true).clear();
        while (!replica.early.isEmpty() && replica.early.firstKey() == replica.state.order() + 1) {
            applied(replica, replica.early.pollFirstEntry().getValue());
        }
        return replica.early.isEmpty();
    }

    private void ask(Replica replica) {
        long now = outside.nowMs();
        if (now - replica.askedAtMs >= ASK_AGAIN_MS) {
            replica.askedAtMs = now;
            outside.send(replica.home, new JsonObject().put("t", "resend").put("session", replica.state.name)
                .put("after", replica.distrusted ? -1 : replica.state.order()));
        }
    }

    private void held(String from, JsonObject message) {
        Replica replica = all.get(message.getString("session"));
        if (replica != null && replica.head != null && message.getLong("epoch") == replica.epoch) {
            replica.held.merge(from, message.getLong("order"), Math::max);
            settle(replica);
        }
    }

    private void resend(String from, JsonObject message) {
        Replica replica = all.get(message.getString("session"));
        if (replica == null) {
            return;
        }
        List<JsonObject> events = replica.after(message.getLong("after"));
        if (message.getLong("after") < 0 || events == null) {
            outside.send(from, replica.snapshot());
        } else {
            events.forEach(event -> outside.send(from, ordered(replica, event)));
        }
        replica.pending.forEach(event -> outside.send(from, ordered(replica, event)));
    }

    /** Adopt a state of the same home or a newer one, unless the state here is further. */
    private void snapshot(JsonObject message) {
        Replica old = all.get(message.getString("session"));
        SessionState state = SessionState.fromJson(message.getJsonObject("state"));
        long epoch = message.getLong("epoch");
        if (!holding || old != null && (epoch < old.epoch || epoch == old.epoch && !old.distrusted
            && state.order() <= old.state.order())) {
            return;
        }
        Replica replica = new Replica(state, epoch, message.getString("home"));
        all.put(state.name, replica);
        if (old != null) {
            replica.early.putAll(old.early);
        }
        outside.replaced(replica);
        askedForMs.remove(state.name);
        drain(replica);
        outside.send(replica.home, new JsonObject().put("t", "held").put("session", state.name)
            .put("epoch", epoch).put("order", replica.state.order()));
    }

    /** Return the states of the sessions whose home this server is. */
    JsonArray homed() {
        JsonArray found = new JsonArray();
        all.values().stream().filter(one -> one.home.equals(self)).forEach(one -> {
            found.add(one.snapshot());
            one.pending.forEach(event -> found.add(ordered(one, event).put("from", self)));
        });
        return found;
    }

    /** Adopt the states of another server's sessions. */
    void load(JsonArray found) {
        for (Object one : found) {
            JsonObject message = (JsonObject) one;
            if (message.getString("t").equals("snapshot")) {
                snapshot(message);
            } else {
                event(message.getString("from"), message);
            }
        }
    }

    /**
     * Set which other servers hold sessions now, and which may be homes. Sessions without a home get a new
     * one.
     */
    void holders(Collection<String> now, Collection<String> mayBeHomes) {
        Set<String> fresh = new HashSet<>(now);
        fresh.removeAll(holders);
        holders = new HashSet<>(now);
        able = new HashSet<>(mayBeHomes);
        if (!holding) {
            return;
        }
        List<Replica> ready = new ArrayList<>();
        List<Replica> orphans = new ArrayList<>();
        for (Replica replica : all.values()) {
            if (replica.claiming != null) {
                replica.claiming.retainAll(holders);
                if (replica.claiming.isEmpty()) {
                    ready.add(replica);
                }
            } else if (replica.head != null) {
                replica.held.keySet().retainAll(holders);
                // A new holder may have missed events.
                fresh.forEach(holder -> outside.send(holder, standing(replica, self)));
                settle(replica);
            } else if (isOrphan(replica) && chosen(replica.state.name, withSelf()).equals(self)) {
                orphans.add(replica);
            }
        }
        ready.forEach(this::takeOver);
        claim(orphans);
    }

    private boolean isOrphan(Replica replica) {
        return replica.head == null && replica.claiming == null && !holders.contains(replica.home);
    }

    private void claim(List<Replica> orphans) {
        JsonArray mine = new JsonArray();
        for (Replica replica : orphans) {
            replica.claiming = new HashSet<>(holders);
            replica.sentAtMs = outside.nowMs();
            mine.add(replica.claim());
        }
        if (!mine.isEmpty()) {
            holders.forEach(holder -> sendClaim(holder, mine));
        }
        if (holders.isEmpty()) {
            orphans.forEach(this::takeOver);
        }
    }

    private void sendClaim(String holder, JsonArray sessions) {
        outside.send(holder, new JsonObject().put("t", "claim").put("sessions", sessions.copy()));
    }

    /** Send again what other servers should have answered by now: it or its answer was lost. */
    private void sendAgain(Replica replica, long now) {
        if (now - replica.sentAtMs < SEND_AGAIN_MS) {
            return;
        }
        if (replica.claiming != null) {
            replica.sentAtMs = now;
            replica.claiming.forEach(holder -> sendClaim(holder, new JsonArray().add(replica.claim())));
        } else if (!replica.pending.isEmpty()) {
            // A server that lacks an earlier event then asks for it.
            replica.sentAtMs = now;
            JsonObject last = replica.pending.peekLast();
            holders.stream().filter(holder -> replica.held.getOrDefault(holder, 0L) < last.getLong("order"))
                .forEach(holder -> outside.send(holder, ordered(replica, last)));
        }
    }

    /** Choose a session's home among servers: the same wherever the same servers are known. */
    static String chosen(String session, Collection<String> servers) {
        String best = "";
        long most = -1;
        for (String server : servers) {
            CRC32 crc = new CRC32();
            crc.update((server + ' ' + session).getBytes(StandardCharsets.UTF_8));
            long mixed = crc.getValue() * 0x9E3779B97F4A7C15L >>> 16;
            if (mixed > most || mixed == most && server.compareTo(best) < 0) {
                most = mixed;
                best = server;
            }
        }
        return best;
    }

    private Set<String> withSelf() {
        Set<String> found = new HashSet<>(able);
        found.add(self);
        return found;
    }

    private void claimed(String from, JsonObject message) {
        JsonArray found = new JsonArray();
        for (Object one : message.getJsonArray("sessions")) {
            JsonObject claim = (JsonObject) one;
            Replica replica = all.get(claim.getString("session"));
            JsonObject answer = new JsonObject().put("session", claim.getString("session"));
            found.add(answer);
            if (replica == null) {
                continue;
            }
            List<JsonObject> more = replica.after(Math.min(claim.getLong("order"), replica.state.order()));
            if (more == null) {
                answer.put("snapshot", replica.snapshot());
            } else {
                answer.put("events", Replica.list(more));
            }
            long epoch = claim.getLong("epoch");
            if (replica.claiming != null && epoch == replica.epoch + 1 && self.compareTo(from) < 0) {
                // Both claim it, and the lesser name gets it: the other learns this from this server's claim.
                continue;
            }
            if (epoch > replica.epoch || epoch == replica.epoch && from.compareTo(replica.home) < 0) {
                replica.follow(epoch, from);
            }
        }
        outside.send(from, new JsonObject().put("t", "claimed").put("sessions", found));
    }

    private void answeredClaim(String from, JsonObject message) {
        for (Object one : message.getJsonArray("sessions")) {
            JsonObject answer = (JsonObject) one;
            Replica replica = all.get(answer.getString("session"));
            if (replica == null || replica.claiming == null) {
                continue;
            }
            Replica further = replica;
            if (answer.containsKey("snapshot")) {
                SessionState state = SessionState.fromJson(answer.getJsonObject("snapshot")
                    .getJsonObject("state"));
                if (state.order() > replica.state.order()) {
                    further = new Replica(state, replica.epoch, replica.home);
                    further.claiming = replica.claiming;
                    further.afterClaim.addAll(replica.afterClaim);
                    all.put(state.name, further);
                    outside.replaced(further);
                }
            }
            for (Object event : answer.getJsonArray("events", new JsonArray())) {
                if (((JsonObject) event).getLong("order") == further.state.order() + 1) {
                    applied(further, (JsonObject) event);
                }
            }
            further.claiming.remove(from);
            if (further.claiming.isEmpty()) {
                takeOver(further);
            }
        }
    }

    private void takeOver(Replica replica) {
        counts.takeovers++;
        replica.lead(replica.epoch + 1, self);
        announce(replica, replica.home);
        List<Runnable> waited = new ArrayList<>(replica.afterClaim);
        replica.afterClaim.clear();
        waited.forEach(Runnable::run);
    }

    private void announce(Replica replica, String home) {
        JsonObject notice = standing(replica, home);
        holders.forEach(holder -> outside.send(holder, notice.copy()));
    }

    private static JsonObject standing(Replica replica, String home) {
        return new JsonObject().put("t", "home").put("session", replica.state.name)
            .put("epoch", replica.epoch).put("home", home).put("order", replica.state.order());
    }

    /** Announce the sessions of this server to all: two parts of the group have merged. */
    void announceAll() {
        all.values().stream().filter(one -> one.head != null).forEach(one -> announce(one, self));
    }

    private void home(String from, JsonObject message) {
        if (!holding) {
            return;
        }
        Replica replica = all.get(message.getString("session"));
        String home = message.getString("home");
        long epoch = message.getLong("epoch");
        if (replica == null) {
            outside.send(from, new JsonObject().put("t", "resend")
                .put("session", message.getString("session")).put("after", -1));
            return;
        }
        boolean rival = replica.head != null && !home.equals(self);
        boolean mineAlready = replica.head != null && home.equals(self);
        if (mineAlready || epoch < replica.epoch || epoch == replica.epoch
            && home.compareTo(replica.home) > 0) {
            return;
        }
        long order = message.getLong("order");
        replica.early.clear();
        replica.follow(epoch, home);
        if (home.equals(self)) {
            replica.lead(epoch, self);
        } else if (rival || replica.state.order() > order) {
            // Two homes gave orders independently, or nobody else has the last events here: the other home's
            // count.
            replica.distrusted = true;
            replica.askedAtMs = 0;
            ask(replica);
        } else if (replica.state.order() < order) {
            replica.askedAtMs = 0;
            ask(replica);
        }
    }

    /**
     * Give every session of this server another home, if another server can be one; true: none is left here.
     */
    boolean handHomes() {
        if (able.isEmpty()) {
            return true;
        }
        boolean all = true;
        for (Replica replica : new ArrayList<>(this.all.values())) {
            if (replica.head != null && replica.pending.isEmpty()) {
                String home = chosen(replica.state.name, able);
                long epoch = replica.epoch + 1;
                replica.epoch = epoch;
                announce(replica, home);
                replica.follow(epoch, home);
            }
            all &= replica.head == null && replica.claiming == null;
        }
        return all;
    }

    /** Remove members who are away, delete sessions without members, and repeat what was not answered. */
    void tick() {
        long now = outside.nowMs();
        for (Replica replica : new ArrayList<>(all.values())) {
            sendAgain(replica, now);
            if (replica.head == null) {
                if (!isOrphan(replica)) {
                    replica.orphanSinceMs = now;
                } else if (now - replica.orphanSinceMs > ORPHAN_MS) {
                    claim(List.of(replica));
                }
                if (replica.distrusted || !replica.early.isEmpty()) {
                    ask(replica);
                }
                continue;
            }
            Map<String, String> members = new LinkedHashMap<>(replica.head.members());
            replica.awaySinceMs.keySet().retainAll(members.keySet());
            for (String user : members.keySet()) {
                if (outside.present(user, replica.state.name)) {
                    replica.awaySinceMs.remove(user);
                } else if (now - replica.awaySinceMs.computeIfAbsent(user, one -> now) > Limits.AWAY_MS) {
                    submit(replica.state.name, new JsonObject().put("kind", "left").put("user", user)
                        .put("id", ""));
                }
            }
            if (!members.isEmpty()) {
                replica.emptySinceMs = now;
            } else if (replica.emptySinceMs > 0 && now - replica.emptySinceMs > EMPTY_MS
                && replica.pending.isEmpty()) {
                all.remove(replica.state.name);
                JsonObject notice = new JsonObject().put("t", "end").put("session", replica.state.name)
                    .put("epoch", replica.epoch);
                holders.forEach(holder -> outside.send(holder, notice.copy()));
            }
        }
        askedForMs.keySet().removeIf(all::containsKey);
    }

    private void end(JsonObject message) {
        Replica replica = all.get(message.getString("session"));
        if (replica != null && message.getLong("epoch") >= replica.epoch && replica.state.members()
            .isEmpty()) {
            all.remove(replica.state.name);
        }
    }
}
