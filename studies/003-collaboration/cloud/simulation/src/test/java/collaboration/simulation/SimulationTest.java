package collaboration.simulation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.managers.LatencyModel;
import collaboration.managers.Scaling;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SimulationTest {
    private static final Path SCENARIOS = Path.of("scenarios");

    private static Scenario small(Scaling policy, long seed, double[]... curve) {
        return new Scenario("small", curve, 30, 20, 10, 1, 600, 2, 8, 0.01, 0.0005, 50, policy, seed,
            LatencyModel.ofThePaper());
    }

    @Test
    void theSameSeedIsTheSameRunAndAnotherIsNot() {
        double[][] curve = {{0, 40}, {600, 160}, {1200, 40}};
        List<Row> one = new CloudSimulation(small(Scaling.HPA, 1, curve)).run();
        assertEquals(one, new CloudSimulation(small(Scaling.HPA, 1, curve)).run());
        assertNotEquals(one, new CloudSimulation(small(Scaling.HPA, 2, curve)).run());
    }

    @Test
    void cloudSimsCpuIsWhatTheQueueingModelSaysWhereNothingIsRandom() {
        Scenario steady = small(Scaling.STATIC, 1, new double[] {0, 40}, new double[] {1200, 40});
        CloudSimulation simulation = new CloudSimulation(steady);
        List<Row> simulated = simulation.run();
        assertTrue(simulation.worked() > 0, "CloudSim Plus executes the cloudlets");
        List<Row> computed = new QueueingModel(steady).run();
        assertEquals(computed.size(), simulated.size());
        for (int i = 2; i < simulated.size(); i++) {
            assertEquals(computed.get(i).users(), simulated.get(i).users());
            assertEquals(computed.get(i).cpu(), simulated.get(i).cpu(), 0.02);
            assertEquals(computed.get(i).load(), simulated.get(i).load(), 1e-9);
        }
        // Two servers, 40 users in four sessions: 18 streams of 1 % each and 20 users of 0.05 %.
        assertEquals(0.19, computed.get(5).cpu(), 1e-9);
    }

    @Test
    void theTableOfPoliciesIsWhatTheScenariosGive() throws IOException {
        String page = Files.readString(Path.of("../README.md"));
        for (Scaling policy : Scaling.values()) {
            StringBuilder row = new StringBuilder("| " + policy.name().toLowerCase(Locale.ROOT));
            for (String name : List.of("ramp", "flash", "day")) {
                Scenario scenario = Scenario.read(SCENARIOS.resolve(name + ".properties")).with(policy);
                Row.Summary simulated = Row.Summary.of(new CloudSimulation(scenario).run());
                Row.Summary computed = Row.Summary.of(new QueueingModel(scenario).run());
                row.append(String.format(Locale.ROOT, " | %.2f / %.3f (%.3f) / %d", simulated.serverHours(),
                    simulated.lateShare(), computed.lateShare(), simulated.oscillations()));
            }
            assertTrue(page.contains(row + " |"), "the README has no row " + row);
        }
    }

    @Test
    void theQueueGrowsWithoutEndTowardsSaturation() {
        QueueingModel model = new QueueingModel(small(Scaling.STATIC, 1, new double[] {0, 40},
            new double[] {60, 40}));
        assertEquals(0.4, model.latencyMs(0, 0), 1e-9, "service alone");
        assertTrue(model.latencyMs(50, 0) > model.latencyMs(40, 0));
        assertTrue(Double.isInfinite(model.latencyMs(100, 0)));
    }

    @Test
    void everyPolicyServesARampWithFewerLateUsersThanNoPolicy() {
        double[][] ramp = {{0, 40}, {1200, 200}, {2400, 200}};
        double none = Row.Summary.of(new CloudSimulation(small(Scaling.STATIC, 1, ramp)).run()).lateShare();
        assertTrue(none > 0.5, "two servers are too few");
        for (Scaling policy : List.of(Scaling.THRESHOLD, Scaling.HPA, Scaling.PREDICTIVE)) {
            Row.Summary summary = Row.Summary.of(new CloudSimulation(small(policy, 1, ramp)).run());
            assertTrue(summary.lateShare() < none / 4, policy + " " + summary);
            assertTrue(summary.most() > 4, policy + " " + summary);
        }
    }

    @Test
    void scenariosAreReadOrRefused(@TempDir Path folder) throws IOException {
        for (String name : List.of("ramp", "flash", "day", "thousand")) {
            Scenario read = Scenario.read(SCENARIOS.resolve(name + ".properties"));
            assertEquals(name, read.name());
            assertTrue(read.endS() >= 5_400);
        }
        assertEquals(100_000, Scenario.read(SCENARIOS.resolve("thousand.properties")).users(72_000));
        Path wrong = folder.resolve("wrong.properties");
        Files.writeString(wrong, "users = 0:1 0:2\n");
        assertThrows(IllegalArgumentException.class, () -> Scenario.read(wrong));
        assertThrows(IllegalArgumentException.class, () -> Scenario.read(folder.resolve("none")));
    }
}
