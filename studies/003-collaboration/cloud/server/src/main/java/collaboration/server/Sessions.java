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
 * Order sessions between servers. Each session has a home that numbers its events and sends them to all servers that
 * hold sessions; an event is applied at the home once a second server has it. When a home dies, another collects
 * what the others have and goes on. Of one thread.
 */
final class Sessions {
    /** Act for the sessions outside of them. */
    interface Outside {
        void send(String to, JsonObject message);

        /** An event was applied here. */
        void applied(Replica session, JsonObject event);

        /** The state here was replaced whole. */
        void replaced(Replica session);

        /** A request of this server's client was refused, or was there already. */
        void answered(String session, String user, String id, Misuse refusal);

        boolean present(String user, String session);

        long nowMs();
    }

    private static final int PENDING = 5_000;
    private static final long ASK_AGAIN_MS = 300;
    private static final long EMPTY_MS = 60_000;
    private static final int HOPS = 3;
    /** So long a session may be without a home before any server that has it claims it. */
    private static final long ORPHAN_MS = 2_000;
    final String self;
    final Map<String, Replica> all = new HashMap<>();
    /** Events of sessions whose state has not come yet. */
    private final Map<String, List<JsonObject>> unknown = new HashMap<>();
    private final Outside outside;
    private final Counts counts;
    /** The other servers that hold sessions. */
    private Set<String> holders = new HashSet<>();
    /** Those of them that may become a session's home: neither loading nor leaving. */
    private Set<String> able = new HashSet<>();
    private boolean holding;

    Sessions(String self, Outside outside, Counts counts) {
        this.self = self;
        this.outside = outside;
        this.counts = counts;
    }

    /** Hold sessions from now on, or, after a drain, no longer. */
    void hold(boolean now) {
        holding = now;
        if (!now) {
            all.clear();
            unknown.clear();
        }
    }

    boolean holding() {
        return holding;
    }

    /** Let a client's request be ordered: an event without its order. Its id and user are repeated in answers. */
    void submit(String session, JsonObject event) {
        submitted(new JsonObject().put("t", "submit").put("session", session).put("origin", self).put("hops", 0)
            .put("event", event));
    }

    private void submitted(JsonObject message) {
        String session = message.getString("session");
        Replica there = all.get(session);
        if (there == null && !"created".equals(message.getJsonObject("event").getString("kind"))) {
            answer(message, new Misuse(Code.NO_SESSION, "there is no session " + session));
            return;
        }
        String home = there == null ? chosen(session, withSelf()) : there.home;
        if (there != null && there.claiming != null) {
            there.afterClaim.add(() -> submitted(message));
        } else if (home.equals(self)) {
            order(session, message);
        } else if (there != null && home.equals(message.getString("from"))) {
            // Each of two takes the other for the home: the lesser name claims it, the other's clients ask again.
            if (self.compareTo(home) < 0 && there.claiming == null) {
                claim(List.of(there));
            }
        } else if (message.getInteger("hops") < HOPS) {
            outside.send(home, message.copy().put("hops", message.getInteger("hops") + 1));
        }
    }

    private void answer(JsonObject message, Misuse refusal) {
        JsonObject event = message.getJsonObject("event");
        if (message.getString("origin").equals(self)) {
            outside.answered(message.getString("session"), event.getString("user"), event.getString("id"), refusal);
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
        Replica there = all.get(session);
        try {
            if (there == null) {
                there = new Replica(new SessionState(session), 1, self);
                there.lead(1, self);
                all.put(session, there);
            } else if (isThere(there, event)) {
                if (!isPending(there, event)) {
                    answer(message, null);
                }
                return;
            }
            allowed(there, event);
        } catch (Misuse refusal) {
            answer(message, refusal);
            return;
        }
        event.put("order", there.head.order() + 1);
        there.head.apply(event);
        there.pending.add(event);
        JsonObject told = new JsonObject().put("t", "event").put("session", session).put("epoch", there.epoch)
            .put("event", event);
        holders.forEach(holder -> outside.send(holder, told.copy()));
        settle(there);
    }

    private static boolean isThere(Replica there, JsonObject event) {
        SessionState head = there.head;
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

    /** Tell whether what is there has not been applied yet: its answer comes when it is. */
    private static boolean isPending(Replica there, JsonObject event) {
        for (JsonObject one : there.pending) {
            boolean same = one.getString("kind").equals(event.getString("kind"))
                && one.getString("user").equals(event.getString("user"));
            if (same && (!event.containsKey("number") || event.getLong("number") <= one.getLong("number"))) {
                return true;
            }
        }
        return false;
    }

    private static void allowed(Replica there, JsonObject event) throws Misuse {
        SessionState head = there.head;
        String user = event.getString("user");
        String kind = event.getString("kind");
        boolean manages = user.equals(head.manager());
        if (there.pending.size() >= PENDING) {
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
            boolean open = head.invite().equals("anyone") || head.invited().contains(user) || head.manager().isEmpty();
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

    /** Apply at the home what a second server has; where there is none, all. */
    private void settle(Replica there) {
        long safe = there.head.order();
        if (!holders.isEmpty()) {
            safe = holders.stream().mapToLong(holder -> there.held.getOrDefault(holder, 0L)).max().orElse(0);
        }
        while (!there.pending.isEmpty() && there.pending.peek().getLong("order") <= safe) {
            applied(there, there.pending.remove());
        }
    }

    private void applied(Replica there, JsonObject event) {
        there.apply(event);
        counts.events++;
        outside.applied(there, event);
    }

    /** Take a message of another server; false: it is none of sessions. */
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
        Replica there = all.get(session);
        if (there == null) {
            if (event.getLong("order") > 1) {
                unknown.computeIfAbsent(session, name -> new ArrayList<>()).add(message);
                outside.send(from, new JsonObject().put("t", "resend").put("session", session).put("after", -1));
                return;
            }
            there = new Replica(new SessionState(session), epoch, from);
            all.put(session, there);
        }
        if (epoch < there.epoch || (epoch == there.epoch && !from.equals(there.home))) {
            return;
        }
        if (epoch > there.epoch) {
            there.follow(epoch, from);
        }
        if (event.getLong("order") > there.state.order()) {
            there.early.put(event.getLong("order"), event);
        }
        if (there.distrusted || !drain(there)) {
            ask(there);
        }
        if (there.distrusted) {
            return;
        }
        outside.send(from, new JsonObject().put("t", "held").put("session", session).put("epoch", there.epoch)
            .put("order", there.state.order()));
    }

    /** Apply early events that follow now; false: there is a gap. */
    private boolean drain(Replica there) {
        there.early.headMap(there.state.order(), true).clear();
        while (!there.early.isEmpty() && there.early.firstKey() == there.state.order() + 1) {
            applied(there, there.early.pollFirstEntry().getValue());
        }
        return there.early.isEmpty();
    }

    private void ask(Replica there) {
        long now = outside.nowMs();
        if (now - there.askedAtMs >= ASK_AGAIN_MS) {
            there.askedAtMs = now;
            outside.send(there.home, new JsonObject().put("t", "resend").put("session", there.state.name)
                .put("after", there.distrusted ? -1 : there.state.order()));
        }
    }

    private void held(String from, JsonObject message) {
        Replica there = all.get(message.getString("session"));
        if (there != null && there.head != null && message.getLong("epoch") == there.epoch) {
            there.held.merge(from, message.getLong("order"), Math::max);
            settle(there);
        }
    }

    private void resend(String from, JsonObject message) {
        Replica there = all.get(message.getString("session"));
        if (there == null) {
            return;
        }
        List<JsonObject> events = there.after(message.getLong("after"));
        if (message.getLong("after") < 0 || events == null) {
            outside.send(from, there.snapshot());
        } else {
            for (JsonObject event : events) {
                outside.send(from, new JsonObject().put("t", "event").put("session", there.state.name)
                    .put("epoch", there.epoch).put("event", event));
            }
        }
        for (JsonObject event : there.pending) {
            outside.send(from, new JsonObject().put("t", "event").put("session", there.state.name)
                .put("epoch", there.epoch).put("event", event));
        }
    }

    /** Take a state of the same home or a newer one, unless what is here is further. */
    private void snapshot(JsonObject message) {
        Replica old = all.get(message.getString("session"));
        SessionState state = SessionState.fromJson(message.getJsonObject("state"));
        long epoch = message.getLong("epoch");
        if (!holding || old != null && (epoch < old.epoch || epoch == old.epoch && !old.distrusted
            && state.order() <= old.state.order())) {
            return;
        }
        Replica there = new Replica(state, epoch, message.getString("home"));
        all.put(state.name, there);
        if (old != null) {
            there.early.putAll(old.early);
        }
        outside.replaced(there);
        List<JsonObject> waited = unknown.remove(state.name);
        if (waited != null) {
            waited.forEach(one -> event(one.getString("from"), one));
        }
        drain(there);
        outside.send(there.home, new JsonObject().put("t", "held").put("session", state.name).put("epoch", epoch)
            .put("order", there.state.order()));
    }

    /** Return the states of the sessions whose home this server is. */
    JsonArray homed() {
        JsonArray found = new JsonArray();
        all.values().stream().filter(one -> one.home.equals(self)).forEach(one -> {
            found.add(one.snapshot());
            one.pending.forEach(event -> found.add(new JsonObject().put("t", "event").put("session", one.state.name)
                .put("epoch", one.epoch).put("event", event).put("from", self)));
        });
        return found;
    }

    /** Take the states of another server's sessions. */
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

    /** Learn which other servers hold sessions now, and which may be homes. Sessions without one get a new one. */
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
        for (Replica there : all.values()) {
            if (there.claiming != null) {
                there.claiming.retainAll(holders);
                if (there.claiming.isEmpty()) {
                    ready.add(there);
                }
            } else if (there.head != null) {
                there.held.keySet().retainAll(holders);
                // Who was not known as a holder until now may have missed events.
                fresh.forEach(holder -> outside.send(holder, standing(there, self)));
                settle(there);
            } else if (isOrphan(there) && chosen(there.state.name, withSelf()).equals(self)) {
                orphans.add(there);
            }
        }
        ready.forEach(this::takeOver);
        claim(orphans);
    }

    private boolean isOrphan(Replica there) {
        return there.head == null && there.claiming == null && !holders.contains(there.home);
    }

    private void claim(List<Replica> orphans) {
        JsonArray mine = new JsonArray();
        for (Replica there : orphans) {
            there.claiming = new HashSet<>(holders);
            mine.add(there.claim());
        }
        if (!mine.isEmpty()) {
            holders.forEach(holder -> outside.send(holder, new JsonObject().put("t", "claim").put("sessions", mine.copy())));
        }
        if (holders.isEmpty()) {
            orphans.forEach(this::takeOver);
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
            Replica there = all.get(claim.getString("session"));
            JsonObject answer = new JsonObject().put("session", claim.getString("session"));
            found.add(answer);
            if (there == null) {
                continue;
            }
            List<JsonObject> more = there.after(Math.min(claim.getLong("order"), there.state.order()));
            if (more == null) {
                answer.put("snapshot", there.snapshot());
            } else {
                answer.put("events", Replica.list(more));
            }
            long epoch = claim.getLong("epoch");
            if (there.claiming != null && epoch == there.epoch + 1 && self.compareTo(from) < 0) {
                // Both claim it, and of two the lesser name has it: the other learns so from this server's claim.
                continue;
            }
            if (epoch > there.epoch || epoch == there.epoch && from.compareTo(there.home) < 0) {
                there.follow(epoch, from);
            }
        }
        outside.send(from, new JsonObject().put("t", "claimed").put("sessions", found));
    }

    private void answeredClaim(String from, JsonObject message) {
        for (Object one : message.getJsonArray("sessions")) {
            JsonObject answer = (JsonObject) one;
            Replica there = all.get(answer.getString("session"));
            if (there == null || there.claiming == null) {
                continue;
            }
            Replica further = there;
            if (answer.containsKey("snapshot")) {
                SessionState state = SessionState.fromJson(answer.getJsonObject("snapshot").getJsonObject("state"));
                if (state.order() > there.state.order()) {
                    further = new Replica(state, there.epoch, there.home);
                    further.claiming = there.claiming;
                    further.afterClaim.addAll(there.afterClaim);
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

    private void takeOver(Replica there) {
        counts.takeovers++;
        there.lead(there.epoch + 1, self);
        announce(there, there.home);
        List<Runnable> waited = new ArrayList<>(there.afterClaim);
        there.afterClaim.clear();
        waited.forEach(Runnable::run);
    }

    private void announce(Replica there, String home) {
        JsonObject told = standing(there, home);
        holders.forEach(holder -> outside.send(holder, told.copy()));
    }

    private static JsonObject standing(Replica there, String home) {
        return new JsonObject().put("t", "home").put("session", there.state.name).put("epoch", there.epoch)
            .put("home", home).put("order", there.state.order());
    }

    /** Tell all where this server's sessions stand: after two parts of the group found each other again. */
    void announceAll() {
        all.values().stream().filter(one -> one.head != null).forEach(one -> announce(one, self));
    }

    private void home(String from, JsonObject message) {
        if (!holding) {
            return;
        }
        Replica there = all.get(message.getString("session"));
        String home = message.getString("home");
        long epoch = message.getLong("epoch");
        if (there == null) {
            outside.send(from, new JsonObject().put("t", "resend").put("session", message.getString("session"))
                .put("after", -1));
            return;
        }
        boolean rival = there.head != null && !home.equals(self);
        boolean mineAlready = there.head != null && home.equals(self);
        if (mineAlready || epoch < there.epoch || epoch == there.epoch && home.compareTo(there.home) > 0) {
            return;
        }
        long order = message.getLong("order");
        there.early.clear();
        there.follow(epoch, home);
        if (home.equals(self)) {
            there.lead(epoch, self);
        } else if (rival || there.state.order() > order) {
            // Two homes ordered apart, or what is here was seen by nobody else: theirs counts.
            there.distrusted = true;
            there.askedAtMs = 0;
            ask(there);
        } else if (there.state.order() < order) {
            there.askedAtMs = 0;
            ask(there);
        }
    }

    /** Give every session of this server another home, if another server holds sessions; true: none is left here. */
    boolean handHomes() {
        if (able.isEmpty()) {
            return true;
        }
        boolean all = true;
        for (Replica there : new ArrayList<>(this.all.values())) {
            if (there.head != null && there.pending.isEmpty()) {
                String home = chosen(there.state.name, able);
                long epoch = there.epoch + 1;
                there.epoch = epoch;
                announce(there, home);
                there.follow(epoch, home);
            }
            all &= there.head == null && there.claiming == null;
        }
        return all;
    }

    /** Let members who are away leave, and forget sessions without members. */
    void tick() {
        long now = outside.nowMs();
        for (Replica there : new ArrayList<>(all.values())) {
            if (there.head == null) {
                if (!isOrphan(there)) {
                    there.orphanSinceMs = now;
                } else if (now - there.orphanSinceMs > ORPHAN_MS) {
                    claim(List.of(there));
                }
                if (there.distrusted || !there.early.isEmpty()) {
                    ask(there);
                }
                continue;
            }
            Map<String, String> members = new LinkedHashMap<>(there.head.members());
            there.awaySinceMs.keySet().retainAll(members.keySet());
            for (String user : members.keySet()) {
                if (outside.present(user, there.state.name)) {
                    there.awaySinceMs.remove(user);
                } else if (now - there.awaySinceMs.computeIfAbsent(user, one -> now) > Limits.AWAY_MS) {
                    submit(there.state.name, new JsonObject().put("kind", "left").put("user", user).put("id", ""));
                }
            }
            if (!members.isEmpty()) {
                there.emptySinceMs = now;
            } else if (there.emptySinceMs > 0 && now - there.emptySinceMs > EMPTY_MS && there.pending.isEmpty()) {
                all.remove(there.state.name);
                JsonObject told = new JsonObject().put("t", "end").put("session", there.state.name)
                    .put("epoch", there.epoch);
                holders.forEach(holder -> outside.send(holder, told.copy()));
            }
        }
        unknown.keySet().removeIf(all::containsKey);
    }

    private void end(JsonObject message) {
        Replica there = all.get(message.getString("session"));
        if (there != null && message.getLong("epoch") >= there.epoch && there.state.members().isEmpty()) {
            all.remove(there.state.name);
        }
    }
}
