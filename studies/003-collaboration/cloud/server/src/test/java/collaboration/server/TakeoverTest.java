package collaboration.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.protocol.Misuse;
import collaboration.protocol.SessionState;
import io.vertx.core.json.JsonObject;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/**
 * Kill and restart servers under users who talk, without a network or a clock: every interleaving comes from
 * a seed. What holds the group together (views, phases, the state transfer to a server that starts) is
 * modelled here as the cloud does it; the order itself is that of {@link Sessions}.
 */
class TakeoverTest {
    private static final String SESSION = "s";
    private static final int SEEDS = 100;
    private static final int KILLS = 6;
    private static final long TICK_MS = 250;
    private final Map<String, Server> servers = new TreeMap<>();
    private final Links links = new Links();
    /** Of each order: the event that some user has seen there. It never changes. */
    private final Map<Long, String> seen = new TreeMap<>();
    private Random random;
    private long now;
    private int started;

    /** A server as its clients and the group see it. */
    private final class Server extends Links.Node {
        final Map<String, String> phases = new TreeMap<>();
        final Map<String, User> users = new TreeMap<>();
        Set<String> loadingFrom;
        String phase = "LOADING";

        Server(String id) {
            super(id, links);
        }

        void sendStatus() {
            servers.keySet().forEach(to -> send(to, new JsonObject().put("t", "status").put("phase", phase)));
        }

        void holdersChanged() {
            Set<String> holders = new HashSet<>(phases.keySet());
            Set<String> able = new HashSet<>(holders);
            able.removeIf(one -> !phases.get(one).equals("ACTIVE"));
            sessions.holders(holders, able);
        }

        void received(String from, JsonObject message) {
            switch (message.getString("t")) {
                case "status" -> {
                    if (from.equals(sessions.self)) {
                        return;
                    }
                    String before = phases.put(from, message.getString("phase"));
                    if (before == null) {
                        sendStatus();
                    }
                    if (!message.getString("phase").equals(before)) {
                        holdersChanged();
                    }
                }
                case "view" -> {
                    phases.remove(message.getString("gone"));
                    if (loadingFrom != null) {
                        loadingFrom.remove(message.getString("gone"));
                    }
                    links.cut(message.getString("gone"), sessions.self);
                    holdersChanged();
                }
                case "held-you" -> {
                    if (servers.containsKey(from)) {
                        servers.get(from).send(sessions.self, new JsonObject().put("t", "state")
                            .put("sessions", servers.get(from).sessions.homed()));
                    }
                }
                case "state" -> {
                    sessions.load(message.getJsonArray("sessions"));
                    loadingFrom.remove(from);
                }
                default -> sessions.received(from, message);
            }
        }

        void tick() {
            sessions.tick();
            if (phase.equals("LOADING") && loadingFrom.isEmpty()) {
                phase = "ACTIVE";
                sendStatus();
            } else if (phase.equals("LOADING")) {
                loadingFrom.forEach(other -> send(other, new JsonObject().put("t", "hold-me")));
            }
            users.values().forEach(User::again);
        }

        @Override
        public void applied(Replica session, JsonObject event) {
            users.values().forEach(user -> user.event(event));
            answered(SESSION, event.getString("user"), event.getString("id"), null);
        }

        @Override
        public void replaced(Replica session) {
            users.values().forEach(user -> user.state(session.state));
        }

        @Override
        public void answered(String session, String name, String id, Misuse refusal) {
            User user = users.get(name);
            if (user == null) {
                return;
            }
            Replica there = sessions.all.get(SESSION);
            if (id.equals(user.joinId)) {
                if (refusal == null && there != null && sessions.self.equals(there.state.members()
                    .get(name))) {
                    user.attach(there);
                }
            } else if (refusal == null) {
                user.unacknowledged.removeIf(message -> message.getString("id").equals(id));
            } else {
                user.refusals.add(refusal.code.word);
            }
        }

        @Override
        public long nowMs() {
            return now;
        }
    }

    /** A user who talks, follows the order, and connects elsewhere when the server dies. */
    private final class User {
        final String name;
        final Deque<JsonObject> unacknowledged = new ArrayDeque<>();
        final List<String> refusals = new ArrayList<>();
        Server at;
        String joinId;
        boolean attached;
        long order;
        long number;
        int joins;

        User(String name) {
            this.name = name;
        }

        void connect(Server server) {
            at = server;
            attached = false;
            joinId = name + " joins " + ++joins;
            server.users.put(name, this);
            again();
        }

        void again() {
            if (!attached) {
                at.sessions.submit(SESSION, event(order == 0 && name.equals("ann") ? "created" : "joined")
                    .put("id", joinId).put("server", at.sessions.self));
            } else {
                new ArrayList<>(unacknowledged).forEach(message -> at.sessions.submit(SESSION, message));
            }
        }

        private JsonObject event(String kind) {
            JsonObject event = new JsonObject().put("kind", kind).put("user", name);
            return kind.equals("created") ? event.put("control", "free").put("invite", "anyone") : event;
        }

        void chat() {
            JsonObject message = event("chat").put("number", ++number).put("id", name + number)
                .put("text", "x");
            unacknowledged.add(message);
            if (attached) {
                at.sessions.submit(SESSION, message);
            }
        }

        void attach(Replica session) {
            attached = true;
            joinId = null;
            state(session.state);
            new ArrayList<>(unacknowledged).forEach(message -> at.sessions.submit(SESSION, message));
        }

        void state(SessionState state) {
            if (attached) {
                assertTrue(state.order() >= order, name + " went back from " + order + " to "
                    + state.order());
                order = state.order();
            }
        }

        void event(JsonObject event) {
            if (attached) {
                assertEquals(order + 1, event.getLong("order"), name + " follows the order");
                order++;
                String what = event.getString("id");
                assertEquals(what, seen.merge(order, what, (old, same) -> old), "what was seen at " + order);
            }
        }
    }

    private void start() {
        Server server = new Server("server" + ++started);
        server.loadingFrom = new HashSet<>(servers.keySet());
        servers.put(server.sessions.self, server);
        server.sendStatus();
    }

    /**
     * Kill one: of what it sent, some arrives, and each of the others learns of its death in its own time.
     */
    private void kill(String id) {
        servers.remove(id);
        for (Server server : servers.values()) {
            Deque<JsonObject> link = links.of(id, server.sessions.self);
            for (int lost = random.nextInt(link.size() + 1); lost > 0; lost--) {
                link.removeLast();
            }
            links.cut(server.sessions.self, id);
            link.add(new JsonObject().put("t", "view").put("gone", id));
        }
    }

    private void deliver(int most) {
        links.deliver(most, random, servers::containsKey, (to, from, message) -> servers.get(to)
            .received(from, message));
    }

    private void tick() {
        now += TICK_MS;
        new ArrayList<>(servers.values()).forEach(Server::tick);
    }

    private void settle(String when, List<User> users) {
        for (int i = 0; i < 200; i++) {
            deliver(100_000);
            tick();
            boolean done = users.stream().allMatch(user -> user.attached && user.unacknowledged.isEmpty())
                && servers.values().stream().allMatch(server -> server.phase.equals("ACTIVE")
                    && server.sessions.all.get(SESSION) != null && server.sessions.all.get(SESSION)
                    .claiming == null)
                && servers.values().stream().map(server -> server.sessions.all.get(SESSION).state.digest())
                .distinct().count() == 1;
            if (done) {
                return;
            }
        }
        throw new AssertionError(when + ": no one state; " + servers.values().stream().map(server -> {
            Replica there = server.sessions.all.get(SESSION);
            return server.sessions.self + " " + server.phase
                + (there == null ? " without it" : " at " + there.state.order() + " epoch " + there.epoch
                + " home " + there.home + (there.head == null ? "" : " head " + there.head.order())
                + " early " + there.early.keySet() + " claiming " + there.claiming
                + (there.distrusted ? " distrusted" : ""));
        }).toList() + users.stream().map(user -> user.name + " at " + user.at.sessions.self
            + (user.attached ? "" : " outside") + " " + user.order + " lacks " + user.unacknowledged.size()
            + " " + user.refusals).toList());
    }

    @Test
    void whatWasAcknowledgedSurvivesEachOfManyDeaths() {
        for (int count = 2; count <= 3; count++) {
            for (int seed = 0; seed < SEEDS; seed++) {
                servers.clear();
                links.clear();
                seen.clear();
                random = new Random(seed);
                String when = count + " servers, seed " + seed;
                List<User> users = new ArrayList<>();
                for (int i = 0; i < count; i++) {
                    start();
                }
                for (int i = 0; i < 20; i++) {
                    deliver(1_000);
                    tick();
                }
                for (String name : List.of("ann", "bob", "cid", "dan")) {
                    User user = new User(name);
                    users.add(user);
                    user.connect(any());
                    settle(when, users);
                }
                for (int kill = 0; kill < KILLS; kill++) {
                    round(users, random.nextInt(20));
                    Server victim = any();
                    kill(victim.sessions.self);
                    for (User user : users) {
                        if (user.at == victim) {
                            deliver(random.nextInt(10));
                            user.connect(any());
                        }
                    }
                    round(users, random.nextInt(20));
                    settle(when + ", kill " + kill, users);
                    start();
                    round(users, random.nextInt(20));
                    if (count > 2 && random.nextBoolean()) {
                        // Among three, the next may die while this one still loads.
                        continue;
                    }
                    settle(when + ", start " + kill, users);
                    for (User user : users) {
                        assertEquals(user.number, servers.values().iterator().next().sessions.all.get(SESSION)
                            .state.number(user.name), when + ": all of " + user.name
                            + "'s messages are there, each once");
                    }
                }
            }
        }
    }

    private Server any() {
        List<Server> serving = servers.values().stream().filter(one -> one.phase.equals("ACTIVE")).toList();
        return serving.get(random.nextInt(serving.size()));
    }

    private void round(List<User> users, int messages) {
        for (int i = 0; i < messages; i++) {
            users.get(random.nextInt(users.size())).chat();
            deliver(random.nextInt(12));
            if (random.nextInt(6) == 0) {
                tick();
            }
        }
    }
}
