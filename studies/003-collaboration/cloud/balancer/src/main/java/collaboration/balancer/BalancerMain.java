package collaboration.balancer;

import collaboration.managers.Balancing;
import collaboration.managers.Scaling;
import collaboration.server.Options;
import java.util.Set;

/** Run the balancer, with the self-optimizing manager, as a process. */
public final class BalancerMain {
    private static final Set<String> OPTIONS = Set.of("host", "port", "group-port", "peers", "balancing",
        "scaling", "least", "most", "period", "boot");

    private BalancerMain() {
    }

    /** Read the options of a balancer; README.md lists them. */
    static Balancer.Settings settings(String[] words, String secret) {
        Options options = new Options(words, OPTIONS);
        double periodS = options.number("period", 30);
        Scaling.Settings usual = Scaling.Settings.usual((int) options.number("least", 1),
            (int) options.number("most", 3));
        // The bucket fills in one period upwards and in six downwards.
        Scaling.Settings bounds = new Scaling.Settings(usual.least(), usual.most(), usual.target(),
            usual.upper(), usual.lower(), usual.cooldownS(), usual.stabilisationS(), usual.aheadS(), periodS,
            6 * periodS);
        return new Balancer.Settings(options.text("host", "127.0.0.1"), options.port("port", 0),
            options.port("group-port", 0), options.addresses("peers"), secret,
            Balancing.of(options.text("balancing", "latency")), Scaling.of(options.text("scaling", "static")),
            bounds, periodS, options.number("boot", 20));
    }

    /** Start, and serve until the process is asked to end. */
    public static void main(String[] words) {
        try {
            new Balancer(settings(words, System.getenv("COLLABORATION_SECRET"))).start();
        } catch (IllegalArgumentException e) {
            System.err.println("balancer: " + e.getMessage());
            System.exit(2);
        } catch (Exception e) {
            System.err.println("balancer: it could not start: "
                + (e.getMessage() == null ? e : e.getMessage()));
            System.exit(3);
        }
    }
}
