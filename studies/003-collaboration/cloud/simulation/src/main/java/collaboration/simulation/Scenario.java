package collaboration.simulation;

import collaboration.managers.LatencyModel;
import collaboration.managers.Scaling;
import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/**
 * Describe what is simulated. `curve` is time in seconds → users, with straight lines between its points.
 * Each stream goes to all other members of its session; a session is on one server.
 */
public record Scenario(String name, double[][] curve, double periodS, double bootS, int sessionSize,
                       int streamsPerSession, double sessionLifeS, int startServers, int mostServers,
                       double cpuPerStream, double cpuPerUser, double limitMs, Scaling policy, long seed,
                       LatencyModel law) {
    /** Read a scenario. Throws IllegalArgumentException with what is wrong. */
    public static Scenario read(Path file) {
        Properties found = new Properties();
        try (Reader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
            found.load(reader);
        } catch (IOException e) {
            throw new IllegalArgumentException("the scenario " + file + " cannot be read: " + e.getMessage(),
                e);
        }
        String law = found.getProperty("law", "");
        String name = file.getFileName().toString().replaceFirst("\\.[^.]*$", "");
        return new Scenario(name, points(text(found, "users")), number(found, "period"),
            number(found, "boot"), (int) number(found, "session-size"), (int) number(found, "streams"),
            number(found, "session-life"), (int) number(found, "start"), (int) number(found, "most"),
            number(found, "cpu-per-stream"), number(found, "cpu-per-user"), number(found, "limit"),
            Scaling.of(text(found, "policy")), (long) number(found, "seed"),
            law.isEmpty() ? LatencyModel.ofThePaper() : LatencyModel.read(file.resolveSibling(law)));
    }

    private static String text(Properties found, String name) {
        String value = found.getProperty(name);
        if (value == null) {
            throw new IllegalArgumentException("the scenario states no " + name);
        }
        return value.trim();
    }

    private static double number(Properties found, String name) {
        try {
            return Double.parseDouble(text(found, name));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " is a number, not " + text(found, name), e);
        }
    }

    private static double[][] points(String text) {
        String[] words = text.split("[ ,]+");
        double[][] found = new double[words.length][];
        for (int i = 0; i < words.length; i++) {
            String[] pair = words[i].split(":");
            if (pair.length != 2) {
                throw new IllegalArgumentException("users is SECONDS:USERS and more of them, not "
                    + words[i]);
            }
            found[i] = new double[] {Double.parseDouble(pair[0]), Double.parseDouble(pair[1])};
            if (i > 0 && found[i][0] <= found[i - 1][0]) {
                throw new IllegalArgumentException("the times of users rise, unlike " + words[i]);
            }
        }
        return found;
    }

    /** Return the same with another policy. */
    public Scenario with(Scaling other) {
        return new Scenario(name, curve, periodS, bootS, sessionSize, streamsPerSession, sessionLifeS,
            startServers, mostServers, cpuPerStream, cpuPerUser, limitMs, other, seed, law);
    }

    /** Return how many users there should be at a time. */
    public double users(double timeS) {
        for (int i = 1; i < curve.length; i++) {
            if (timeS <= curve[i][0]) {
                double share = (timeS - curve[i - 1][0]) / (curve[i][0] - curve[i - 1][0]);
                return curve[i - 1][1] + Math.max(0, share) * (curve[i][1] - curve[i - 1][1]);
            }
        }
        return curve[curve.length - 1][1];
    }

    public double endS() {
        return curve[curve.length - 1][0];
    }

    /** Return the outgoing streams of one session. */
    public int outgoingPerSession() {
        return streamsPerSession * (sessionSize - 1);
    }

    /** Return how many outgoing streams one server carries within the limit. */
    public double capacity() {
        return law.capacity(limitMs, (double) sessionSize / outgoingPerSession());
    }

    /** Return the policies' bounds: as in the cloud, looking ahead over a boot and two periods. */
    public Scaling.Settings settings() {
        Scaling.Settings usual = Scaling.Settings.usual(1, mostServers);
        return new Scaling.Settings(1, mostServers, usual.target(), usual.upper(), usual.lower(),
            usual.cooldownS(), usual.stabilisationS(), bootS + 2 * periodS, usual.upBucketS(),
            usual.downBucketS());
    }
}
