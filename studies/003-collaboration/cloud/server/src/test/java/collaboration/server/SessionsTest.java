package collaboration.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.protocol.Misuse;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/**
 * Drive the order of sessions without a network: messages between servers wait until the test passes them on.
 */
class SessionsTest {
    private final Map<String, Node> nodes = new TreeMap<>();
    private final Links links = new Links();

    private final class Node extends Links.Node {
        final List<Long> applied = new ArrayList<>();
        final List<String> answers = new ArrayList<>();
        long now;

        Node(String id) {
            super(id, links);
        }

        @Override
        public void applied(Replica session, JsonObject event) {
            applied.add(event.getLong("order"));
        }

        @Override
        public void replaced(Replica session) {
        }

        @Override
        public void answered(String session, String user, String id, Misuse refusal) {
            answers.add(id + (refusal == null ? " ok" : " " + refusal.code.word));
        }

        @Override
        public long nowMs() {
            return now += 400;
        }
    }

    private void cloud(String... ids) {
        for (String id : ids) {
            nodes.put(id, new Node(id));
        }
        nodes.values().forEach(node -> node.sessions.holders(others(node), others(node)));
    }

    private Set<String> others(Node node) {
        Set<String> found = new java.util.TreeSet<>(nodes.keySet());
        found.remove(node.sessions.self);
        return found;
    }

    private void pass(Random random) {
        int passed = links.deliver(100_000, random, nodes::containsKey,
            (to, from, message) -> nodes.get(to).sessions.received(from, message));
        assertTrue(passed < 100_000, "messages without end");
    }

    private static JsonObject event(String kind, String user, long number) {
        JsonObject event = new JsonObject().put("kind", kind).put("user", user).put("id", user + number);
        return switch (kind) {
            case "created" -> event.put("control", "free").put("invite", "anyone").put("server", "a");
            case "joined" -> event.put("server", "a");
            default -> event.put("number", number).put("sent", 0).put("text", "x");
        };
    }

    private void agree(int orders) {
        Set<String> digests = new java.util.TreeSet<>();
        for (Node node : nodes.values()) {
            Replica there = node.sessions.all.get("s");
            assertEquals(orders, there.state.order(), node.sessions.self);
            digests.add(there.state.digest());
        }
        assertEquals(1, digests.size());
        assertEquals(1, nodes.values().stream().filter(node -> node.sessions.all.get("s").head != null)
            .count(), "one home");
    }

    @Test
    void nothingIsAppliedAtTheHomeBeforeASecondServerHasIt() {
        cloud("a", "b");
        Node home = nodes.get(Sessions.chosen("s", nodes.keySet()));
        home.sessions.submit("s", event("created", "ann", 0));
        assertEquals(List.of(), home.applied);
        pass(new Random(1));
        assertEquals(List.of(1L), home.applied);
        agree(1);
    }

    @Test
    void aServerAloneAppliesAtOnce() {
        cloud("a");
        nodes.get("a").sessions.submit("s", event("created", "ann", 0));
        assertEquals(List.of(1L), nodes.get("a").applied);
    }

    @Test
    void whatASecondServerHasSurvivesTheHomeInAnyOrderOfMessages() {
        for (int seed = 0; seed < 200; seed++) {
            nodes.clear();
            links.clear();
            Random random = new Random(seed);
            cloud("a", "b", "c");
            String home = Sessions.chosen("s", nodes.keySet());
            String other = others(nodes.get(home)).iterator().next();
            nodes.get(other).sessions.submit("s", event("created", "ann", 0));
            pass(random);
            for (int i = 1; i <= 20; i++) {
                nodes.get(other).sessions.submit("s", event("chat", "ann", i));
                if (random.nextBoolean()) {
                    pass(random);
                }
            }
            // Some of what the home sent arrives, some is lost with it.
            for (String survivor : others(nodes.get(home))) {
                Deque<JsonObject> link = links.of(home, survivor);
                for (int left = random.nextBoolean() ? random.nextInt(link.size() + 1)
                    : 0; left > 0; left--) {
                    nodes.get(survivor).sessions.received(home, link.remove());
                }
            }
            long safe = nodes.values().stream().mapToLong(node -> node.applied.size()).max().orElse(0);
            nodes.remove(home);
            nodes.keySet().forEach(survivor -> links.cut(home, survivor));
            nodes.values().forEach(node -> node.sessions.holders(others(node), others(node)));
            pass(random);
            Replica there = nodes.get(other).sessions.all.get("s");
            assertTrue(there.state.order() >= safe, "what was applied anywhere is there, seed " + seed);
            for (long i = there.state.number("ann") + 1; i <= 20; i++) {
                nodes.get(other).sessions.submit("s", event("chat", "ann", i));
            }
            pass(random);
            agree(21);
        }
    }

    @Test
    void twoWhoClaimOneSessionAgreeOnOne() {
        for (int seed = 0; seed < 50; seed++) {
            nodes.clear();
            links.clear();
            Random random = new Random(seed);
            cloud("a", "b", "c");
            String home = Sessions.chosen("s", nodes.keySet());
            nodes.get(home).sessions.submit("s", event("created", "ann", 0));
            pass(random);
            nodes.remove(home);
            // Neither takes the other for one that may be a home: both claim.
            nodes.values().forEach(node -> node.sessions.holders(others(node), Set.of()));
            pass(random);
            nodes.values().forEach(node -> node.sessions.submit("s", event("chat", "ann", 1)));
            pass(random);
            agree(2);
        }
    }

    @Test
    void whatIsLostBetweenServersIsSentAgain() {
        cloud("a", "b", "c");
        Random random = new Random(1);
        Node home = nodes.get(Sessions.chosen("s", nodes.keySet()));
        home.sessions.submit("s", event("created", "ann", 0));
        pass(random);
        home.sessions.submit("s", event("chat", "ann", 1));
        links.clear();
        pass(random);
        assertEquals(List.of(1L), home.applied, "nobody else has the chat");
        tick(random);
        agree(2);
        nodes.remove(home.sessions.self);
        nodes.values().forEach(node -> node.sessions.holders(others(node), others(node)));
        links.clear();
        tick(random);
        nodes.values().iterator().next().sessions.submit("s", event("chat", "ann", 2));
        pass(random);
        agree(3);
    }

    /** Let a few seconds pass. */
    private void tick(Random random) {
        for (int i = 0; i < 10; i++) {
            nodes.values().forEach(node -> node.sessions.tick());
            pass(random);
        }
    }

    @Test
    void whatWaitsIsBounded() {
        cloud("a", "b");
        Node home = nodes.get(Sessions.chosen("s", nodes.keySet()));
        home.sessions.submit("s", event("created", "ann", 0));
        pass(new Random(1));
        int number = 0;
        do {
            home.sessions.submit("s", event("chat", "ann", ++number));
            assertTrue(number < 100_000, "the home takes messages without end");
        } while (home.answers.isEmpty());
        assertEquals(List.of("ann" + number + " overloaded"), home.answers);
        pass(new Random(1));
        home.sessions.submit("s", event("chat", "ann", number));
        pass(new Random(1));
        agree(number + 1);
    }

    @Test
    void aMessageSentAgainIsThereOnce() {
        cloud("a", "b");
        Node node = nodes.get("a");
        node.sessions.submit("s", event("created", "ann", 0));
        pass(new Random(1));
        for (int i = 0; i < 3; i++) {
            node.sessions.submit("s", event("chat", "ann", 1));
            pass(new Random(i));
        }
        node.sessions.submit("s", event("chat", "ann", 3));
        pass(new Random(1));
        agree(2);
        assertTrue(node.answers.contains("ann3 number"), node.answers.toString());
        assertTrue(node.answers.contains("ann1 ok"));
    }
}
