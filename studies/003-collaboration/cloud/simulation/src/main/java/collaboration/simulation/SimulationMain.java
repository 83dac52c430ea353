package collaboration.simulation;

import collaboration.managers.Scaling;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * Simulate a scenario file: `SCENARIO [FOLDER]`. Without a folder, each policy's summary; with one, a CSV of
 * each.
 */
public final class SimulationMain {
    private SimulationMain() {
    }

    /** Run. */
    public static void main(String[] words) throws IOException {
        if (words.length < 1 || words.length > 2) {
            System.err.println("simulation: give a scenario file, and a folder for its tables if you like");
            System.exit(2);
        }
        try {
            Scenario scenario = Scenario.read(Path.of(words[0]));
            System.out.println("scenario,by,policy,server_hours,late_share,oscillations,most_servers,cpu_s");
            List<Scaling> policies = scenario.mostServers() > 100 ? List.of(scenario.policy())
                : List.of(Scaling.values());
            for (Scaling policy : policies) {
                Scenario one = scenario.with(policy);
                report(one, "cloudsim", new CloudSimulation(one)::run, words);
                report(one, "queueing", new QueueingModel(one)::run, words);
            }
        } catch (IllegalArgumentException e) {
            System.err.println("simulation: " + e.getMessage());
            System.exit(2);
        }
    }

    private interface Rows {
        List<Row> rows();
    }

    private static void report(Scenario scenario, String by, Rows rows, String[] words) throws IOException {
        long before = java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
        List<Row> found = rows.rows();
        double cpuS = (java.lang.management.ManagementFactory.getThreadMXBean()
            .getCurrentThreadCpuTime() - before) / 1e9;
        Row.Summary summary = Row.Summary.of(found);
        String policy = scenario.policy().name().toLowerCase(Locale.ROOT);
        System.out.printf(Locale.ROOT, "%s,%s,%s,%.2f,%.4f,%d,%d,%.1f%n", scenario.name(), by, policy,
            summary.serverHours(), summary.lateShare(), summary.oscillations(), summary.most(), cpuS);
        if (words.length == 2) {
            Path file = Path.of(words[1]).resolve(scenario.name() + "-" + by + "-" + policy + ".csv");
            Files.createDirectories(file.getParent());
            Files.write(file, (Iterable<String>) Stream.concat(Stream.of(Row.HEAD), found.stream()
                .map(Row::line))::iterator);
        }
    }
}
