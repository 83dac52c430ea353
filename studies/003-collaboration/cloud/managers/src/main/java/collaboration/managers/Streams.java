package collaboration.managers;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Count outgoing streams: those to a server's own clients, and one crossing to each other server with
 * members.
 */
public final class Streams {
    /** Hold where a session's members and its streaming clients are: server → count. */
    public record Session(Map<String, Integer> members, Map<String, Integer> streaming) {
    }

    private Streams() {
    }

    /** Count the streams that leave one server. */
    public static int outgoing(String server, Collection<Session> sessions) {
        int count = 0;
        for (Session session : sessions) {
            int members = session.members().getOrDefault(server, 0);
            int own = session.streaming().getOrDefault(server, 0);
            int all = session.streaming().values().stream().mapToInt(Integer::intValue).sum();
            long others = session.members().entrySet().stream()
                .filter(one -> one.getValue() > 0 && !one.getKey().equals(server)).count();
            count += own * (members - 1) + (all - own) * members + (int) (own * others);
        }
        return count;
    }

    /** Return the mean over servers, as the paper's tables print it. */
    public static double mean(List<String> servers, Collection<Session> sessions) {
        return servers.stream().mapToInt(server -> outgoing(server, sessions)).average().orElse(0);
    }

    /** Spread members and streaming clients over servers as evenly as possible. */
    public static Session even(List<String> servers, int members, int streaming) {
        return new Session(shares(servers, members), shares(servers, streaming));
    }

    private static Map<String, Integer> shares(List<String> servers, int count) {
        Map<String, Integer> found = new HashMap<>();
        for (int i = 0; i < count; i++) {
            found.merge(servers.get(i % servers.size()), 1, Integer::sum);
        }
        return found;
    }
}
