package collaboration.managers;

import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.random.RandomGenerator;

/** Choose a server for the next client. */
public enum Balancing {
    /** The least predicted latency. */
    LATENCY,
    /** The fewest connections. */
    CONNECTIONS,
    /** Any server, at random. */
    RANDOM;

    /** Describe a server as a balancer sees it. */
    public record Server(String id, int clients, double predictedMs, boolean admits) {
    }

    /** Find a policy by name. Throws IllegalArgumentException that lists the names. */
    public static Balancing of(String word) {
        for (Balancing policy : values()) {
            if (policy.name().toLowerCase(Locale.ROOT).equals(word)) {
                return policy;
            }
        }
        throw new IllegalArgumentException("a balancer's policy is latency, connections or random, not "
            + word);
    }

    /** Choose among the servers that admit clients; empty: none does. Ties are broken by `random`. */
    public Optional<Server> choose(List<Server> servers, RandomGenerator random) {
        List<Server> open = servers.stream().filter(Server::admits).toList();
        if (open.isEmpty()) {
            return Optional.empty();
        }
        if (this == RANDOM) {
            return Optional.of(open.get(random.nextInt(open.size())));
        }
        Comparator<Server> better = this == LATENCY
            ? Comparator.comparingDouble(Server::predictedMs).thenComparingInt(Server::clients)
            : Comparator.comparingInt(Server::clients);
        Server best = open.stream().min(better).orElseThrow();
        List<Server> equal = open.stream().filter(one -> better.compare(one, best) == 0).toList();
        return Optional.of(equal.get(random.nextInt(equal.size())));
    }
}
