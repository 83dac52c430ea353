package collaboration.server;

import io.vertx.core.json.JsonObject;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * Carry messages between the servers of a test: each link keeps its order, a seed decides between the links.
 */
final class Links {
    /** Take a message at the end of a link. */
    interface Receiver {
        void received(String to, String from, JsonObject message);
    }

    /** Be a server on these links; what it does with events is the test's own. */
    abstract static class Node implements Sessions.Outside {
        final Sessions sessions;
        private final Links links;

        Node(String id, Links links) {
            this.links = links;
            sessions = new Sessions(id, this, new Counts());
            sessions.hold(true);
        }

        @Override
        public void send(String to, JsonObject message) {
            links.of(sessions.self, to).add(message.copy().put("from", sessions.self));
        }

        @Override
        public boolean present(String user, String session) {
            return true;
        }
    }

    private record Link(String from, String to) implements Comparable<Link> {
        @Override
        public int compareTo(Link other) {
            return from.equals(other.from) ? to.compareTo(other.to) : from.compareTo(other.from);
        }
    }

    private final Map<Link, Deque<JsonObject>> waiting = new TreeMap<>();

    /** Return what waits on one link, to be changed. */
    Deque<JsonObject> of(String from, String to) {
        return waiting.computeIfAbsent(new Link(from, to), link -> new ArrayDeque<>());
    }

    /** Lose what waits on one link. */
    void cut(String from, String to) {
        waiting.remove(new Link(from, to));
    }

    void clear() {
        waiting.clear();
    }

    /**
     * Deliver as many messages as wait for servers that are there, but no more than the limit; returns their
     * count.
     */
    int deliver(int most, Random random, Predicate<String> there, Receiver receiver) {
        for (int count = 0; count < most; count++) {
            List<Link> ready = waiting.entrySet().stream()
                .filter(one -> !one.getValue().isEmpty() && there.test(one.getKey().to))
                .map(Map.Entry::getKey).toList();
            if (ready.isEmpty()) {
                return count;
            }
            Link link = ready.get(random.nextInt(ready.size()));
            receiver.received(link.to, link.from, waiting.get(link).remove());
        }
        return most;
    }
}
