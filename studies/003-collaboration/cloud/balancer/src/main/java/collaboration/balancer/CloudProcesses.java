package collaboration.balancer;

import collaboration.server.Options;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Run a cloud on this machine: a balancer and some servers, a process each, for as long as this object is
 * open.
 */
public final class CloudProcesses implements AutoCloseable {
    private static final String HOST = "127.0.0.1";
    private static final Set<String> OPTIONS = Set.of("servers", "standby", "port", "balancing", "scaling",
        "boot", "period");
    private static final long START_WITHIN_MS = 30_000;
    private static final long END_WITHIN_S = 6;
    public final int port;
    private final String secret;
    private final Map<String, Process> running = new LinkedHashMap<>();
    private final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(1)).build();

    /** Use ports from this one upwards: ten for each process. */
    public CloudProcesses(int port) {
        this.port = port;
        byte[] random = new byte[16];
        new SecureRandom().nextBytes(random);
        secret = HexFormat.of().formatHex(random);
    }

    /** Return the port of a server's pages and WebSockets, by its number from 1. */
    public int portOf(int server) {
        return port + 10 * server;
    }

    private String groupOf(int process) {
        return HOST + ":" + (port + 10 * process + 1);
    }

    /** Start the balancer and wait until it answers; the servers find the group through it. */
    public void balancer(String... more) throws IOException, InterruptedException {
        List<String> words = new ArrayList<>(List.of("--host", HOST, "--port", "" + port, "--group-port", ""
            + (port + 1), "--peers", groupOf(0)));
        words.addAll(List.of(more));
        start("balancer", "collaboration.balancer.BalancerMain", words);
        await(0);
    }

    /** Start a server, by its number from 1. */
    public void server(int number, String... more) throws IOException {
        List<String> words = new ArrayList<>(List.of("--name", "server-" + number, "--host", HOST,
            "--port", "" + portOf(number), "--group-port", "" + (portOf(number) + 1),
            "--frames-port", "" + (portOf(number) + 2), "--peers", groupOf(0)));
        words.addAll(List.of(more));
        start("server-" + number, "collaboration.server.ServerMain", words);
    }

    private void start(String name, String main, List<String> words) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java")
            .toString(), "-XX:+UseSerialGC", "-Xmx128m", "-XX:ActiveProcessorCount=1",
            "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), main));
        command.addAll(words);
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.INHERIT);
        builder.environment().put("COLLABORATION_SECRET", secret);
        running.put(name, builder.start());
    }

    /** Return a running process. */
    public Process process(String name) {
        return running.get(name);
    }

    /** Kill a process at once, as kill -9 does. */
    public void kill(String name) throws InterruptedException {
        running.remove(name).destroyForcibly().waitFor();
    }

    /** Get a page; empty if there is no answer. */
    public String get(int atPort, String path) throws InterruptedException {
        try {
            return client.send(HttpRequest.newBuilder(URI.create("http://" + HOST + ":" + atPort + path))
                .timeout(Duration.ofSeconds(2)).build(), HttpResponse.BodyHandlers.ofString()).body();
        } catch (IOException e) {
            return "";
        }
    }

    /**
     * Wait until this many servers serve. Throws IllegalStateException if they do not in time, or a process
     * ends.
     */
    public void await(int servers) throws InterruptedException {
        long until = System.currentTimeMillis() + START_WITHIN_MS;
        while (!get(port, "/health").contains("\"servers\":" + servers + "}")) {
            for (Map.Entry<String, Process> one : running.entrySet()) {
                if (!one.getValue().isAlive()) {
                    throw new IllegalStateException(one.getKey() + " ended with " + one.getValue()
                        .exitValue());
                }
            }
            if (System.currentTimeMillis() > until) {
                throw new IllegalStateException("after " + START_WITHIN_MS + " ms there are not " + servers
                    + " servers");
            }
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    @Override
    public void close() {
        running.values().forEach(Process::destroy);
        running.values().forEach(process -> {
            try {
                if (!process.waitFor(END_WITHIN_S, TimeUnit.SECONDS)) {
                    process.destroyForcibly();
                }
            } catch (InterruptedException e) {
                process.destroyForcibly();
                Thread.currentThread().interrupt();
            }
        });
        running.clear();
    }

    /** Start a cloud by hand; README.md shows how. */
    public static void main(String[] words) throws Exception {
        try {
            Options options = new Options(words, OPTIONS);
            int servers = (int) options.number("servers", 3);
            int standby = (int) options.number("standby", 0);
            if (servers < 1 || standby < 0 || servers + standby > 4) {
                throw new IllegalArgumentException("one server to four, those on standby included");
            }
            CloudProcesses cloud = new CloudProcesses(options.port("port", 18_000));
            Runtime.getRuntime().addShutdownHook(new Thread(cloud::close));
            String period = options.text("period", "30");
            cloud.balancer("--balancing", options.text("balancing", "latency"), "--scaling",
                options.text("scaling", "static"), "--boot", options.text("boot", "20"), "--period", period,
                "--most", "" + (servers + standby));
            for (int i = 1; i <= servers + standby; i++) {
                cloud.server(i, "--start", i <= servers ? "active" : "standby", "--period", period);
            }
            cloud.await(servers);
            System.out.println("The cloud serves. Open http://" + HOST + ":" + cloud.port
                + "/ in two windows; Ctrl-C ends it.");
            Thread.currentThread().join();
        } catch (IllegalArgumentException | IllegalStateException e) {
            System.err.println("cloud: " + e.getMessage());
            System.exit(2);
        }
    }
}
