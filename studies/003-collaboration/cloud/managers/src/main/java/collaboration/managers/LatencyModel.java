package collaboration.managers;

import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.Properties;

/**
 * Predict a server's median latency from its outgoing streams and users:
 * intercept + perStream · streams + perStreamSquared · streams² + perUser · users, in milliseconds.
 */
public record LatencyModel(double intercept, double perStream, double perStreamSquared, double perUser) {
    /** Return the model fitted to the paper's tables (model.properties). */
    public static LatencyModel ofThePaper() {
        String name = "/collaboration/model.properties";
        InputStream stream = Objects.requireNonNull(LatencyModel.class.getResourceAsStream(name));
        return read(new InputStreamReader(stream, StandardCharsets.UTF_8), "model.properties");
    }

    /**
     * Read the four coefficients from a properties file. Throws IllegalArgumentException with what is wrong.
     */
    public static LatencyModel read(Path file) {
        try {
            return read(Files.newBufferedReader(file, StandardCharsets.UTF_8), file.toString());
        } catch (IOException e) {
            throw new IllegalArgumentException("the model " + file + " cannot be read: " + e.getMessage(), e);
        }
    }

    private static LatencyModel read(Reader opened, String file) {
        Properties found = new Properties();
        try (Reader reader = opened) {
            found.load(reader);
        } catch (IOException e) {
            throw new IllegalArgumentException("the model " + file + " cannot be read: " + e.getMessage(), e);
        }
        return new LatencyModel(number(found, "intercept", file), number(found, "per-stream", file),
            number(found, "per-stream-squared", file), number(found, "per-user", file));
    }

    private static double number(Properties found, String name, String file) {
        try {
            return Double.parseDouble(found.getProperty(name, ""));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("the model " + file + " states no number for " + name, e);
        }
    }

    /**
     * Predict in milliseconds, at least the model's minimum at fewer streams, so that more load never looks
     * better.
     */
    public double latencyMs(double streams, double users) {
        double least = perStreamSquared > 0 ? Math.max(0, -perStream / (2 * perStreamSquared)) : 0;
        double at = Math.max(streams, least);
        return Math.max(0, intercept + perStream * at + perStreamSquared * at * at + perUser * users);
    }

    /**
     * Return how many outgoing streams one server carries within a latency, with `usersPerStream` users for
     * each.
     */
    public double capacity(double limitMs, double usersPerStream) {
        double low = 0;
        double high = 1e6;
        for (int i = 0; i < 60; i++) {
            double middle = (low + high) / 2;
            if (latencyMs(middle, middle * usersPerStream) <= limitMs) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return low;
    }
}
