package collaboration.server;

import collaboration.managers.LatencyModel;
import collaboration.managers.SelfOrganizing;
import java.nio.file.Path;
import java.util.Set;

/** Run one server as a process. */
public final class ServerMain {
    private static final Set<String> OPTIONS = Set.of("name", "host", "port", "group-port", "frames-port",
        "peers", "start", "boot", "period", "cpus", "model", "latency", "bandwidth");

    private ServerMain() {
    }

    /** Read the options of a server; README.md lists them. */
    static CloudServer.Settings settings(String[] words, String secret) {
        Options options = new Options(words, OPTIONS);
        String start = options.text("start", "active");
        if (!start.equals("active") && !start.equals("standby")) {
            throw new IllegalArgumentException("--start is active or standby, not " + start);
        }
        String model = options.text("model", "");
        SelfOrganizing.Limits usual = SelfOrganizing.Limits.USUAL;
        SelfOrganizing.Limits limits = new SelfOrganizing.Limits(options.number("latency", usual.latencyMs()),
            usual.cpuShare(), options.number("bandwidth", usual.bytesPerS()), usual.release());
        return new CloudServer.Settings(options.text("name", null), options.text("host", "127.0.0.1"),
            options.port("port", 0), options.port("group-port", 0), options.port("frames-port", 0),
            options.addresses("peers"), secret, start.equals("active"), options.number("boot", 20),
            options.number("period", 30), options.number("cpus", 1),
            model.isEmpty() ? LatencyModel.ofThePaper() : LatencyModel.read(Path.of(model)), limits);
    }

    /** Start, and serve until the process is asked to end. */
    public static void main(String[] words) {
        try {
            CloudServer server = new CloudServer(settings(words, System.getenv("COLLABORATION_SECRET")))
                .start();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                try {
                    server.stop();
                } catch (Exception e) {
                    System.err.println("the server did not stop cleanly: " + e.getMessage());
                }
            }));
        } catch (IllegalArgumentException e) {
            System.err.println("server: " + e.getMessage());
            System.exit(2);
        } catch (Exception e) {
            System.err.println("server: it could not start: "
                + (e.getMessage() == null ? e : e.getMessage()));
            System.exit(3);
        }
    }
}
