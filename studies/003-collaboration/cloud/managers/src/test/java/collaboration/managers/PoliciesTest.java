package collaboration.managers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.managers.Balancing.Server;
import collaboration.managers.Scaling.Memory;
import collaboration.managers.Scaling.Observation;
import collaboration.managers.Scaling.Settings;
import collaboration.managers.Scaling.Step;
import collaboration.managers.SelfOrganizing.Decision;
import collaboration.managers.SelfOrganizing.Limits;
import collaboration.managers.SelfOrganizing.Measured;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PoliciesTest {
    /** No buckets, a minute's cooldown, five minutes' stabilisation, 100 s ahead. */
    private static final Settings PLAIN = new Settings(1, 10, 0.5, 0.8, 0.3, 60, 300, 100, 0, 0);

    private static List<Integer> servers(Scaling policy, Settings settings, int start, double everyS,
                                         double... demands) {
        List<Integer> found = new ArrayList<>();
        Memory memory = Memory.NONE;
        int now = start;
        for (int i = 0; i < demands.length; i++) {
            Step step = policy.decide(new Observation(i * everyS, now, 0, demands[i] / now), memory,
                settings);
            memory = step.memory();
            now = step.servers();
            found.add(now);
        }
        return found;
    }

    private static double[] numbers(String words) {
        return List.of(words.trim().split(" +")).stream().mapToDouble(Double::parseDouble).toArray();
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        // policy    | start | every s | demand in whole servers                 | servers after each
        "STATIC      | 2     | 30      | 0.1 5 9 0                               | 2 2 2 2",
        "THRESHOLD   | 2     | 30      | 1.0 1.0 1.0                             | 2 2 2",
        "THRESHOLD   | 2     | 30      | 1.7 1.7 1.7                             | 3 3 3",
        "THRESHOLD   | 2     | 30      | 3.9 3.9 3.9 3.9 3.9                     | 3 3 4 4 5",
        "THRESHOLD   | 3     | 60      | 0.5 0.5 0.5 0.5                         | 2 1 1 1",
        "THRESHOLD   | 1     | 60      | 0.0 0.0                                 | 1 1",
        "THRESHOLD   | 10    | 60      | 30 30                                   | 10 10",
        "HPA         | 2     | 30      | 1.0 1.05 0.95                           | 2 2 2",
        "HPA         | 2     | 30      | 3.0 3.0                                 | 6 6",
        "HPA         | 4     | 30      | 0.9 0.9                                 | 2 2",
        "HPA         | 1     | 100     | 3.0 0.4 0.4 0.4 0.4                     | 6 6 6 6 1",
        "HPA         | 5     | 30      | 0.0                                     | 1",
        "PREDICTIVE  | 2     | 50      | 0.5 0.7 0.9 1.1                         | 1 3 3 3",
        "PREDICTIVE  | 4     | 100     | 1.0 1.0 1.0                             | 2 2 2",
        "PREDICTIVE  | 4     | 50      | 2.0 1.8 1.6 1.4                         | 4 4 4 4",
        "PREDICTIVE  | 2     | 50      | 9.0 9.0                                 | 10 10",
    })
    void eachScalingPolicyByItsTable(Scaling policy, int start, double everyS, String demands,
                                     String servers) {
        List<Integer> expected = List.of(servers.trim().split(" +")).stream().map(Integer::valueOf).toList();
        assertEquals(expected, servers(policy, PLAIN, start, everyS, numbers(demands)));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        // bucket up s | bucket down s | demands of a cloud of two, every 30 s | servers after each
        "60            | 0             | 1.9 1.9 1.9                           | 2 2 4",
        "60            | 0             | 1.9 1.0 1.9 1.0 1.9 1.0               | 2 2 2 2 2 2",
        "60            | 0             | 1.9 1.9 1.0 1.9 1.9                   | 2 2 2 2 4",
        "0             | 60            | 0.5 0.5 0.5 0.5                       | 2 2 1 1",
        "0             | 60            | 0.5 1.0 0.5 1.0 0.5 1.0               | 2 2 2 2 2 2",
    })
    void aWishLeaksAwayUnlessItLasts(double upS, double downS, String demands, String servers) {
        Settings settings = new Settings(1, 10, 0.5, 0.8, 0.3, 0, 0, 0, upS, downS);
        List<Integer> expected = List.of(servers.trim().split(" +")).stream().map(Integer::valueOf).toList();
        assertEquals(expected, servers(Scaling.HPA, settings, 2, 30, numbers(demands)));
    }

    @Test
    void serversThatBootCountAndNoPolicyAddsThemTwice() {
        Step step = Scaling.HPA.decide(new Observation(0, 2, 4, 1.5), Memory.NONE, PLAIN);
        assertEquals(6, step.servers());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        // policy     | servers: id clients predicted-ms admits …      | chosen, of 200 draws
        "LATENCY      | a 9 20 yes  b 1 30 yes                         | a",
        "LATENCY      | a 9 20 no   b 1 30 yes                         | b",
        "LATENCY      | a 3 20 yes  b 1 20 yes                         | b",
        "CONNECTIONS  | a 9 20 yes  b 1 30 yes                         | b",
        "CONNECTIONS  | a 1 20 yes  b 1 30 yes  c 2 1 yes              | a b",
        "RANDOM       | a 9 20 yes  b 1 30 yes  c 0 0 no               | a b",
        "RANDOM       | a 9 20 no                                      | none",
        "LATENCY      | a 9 20 no                                      | none",
    })
    void eachBalancingPolicyByItsTable(Balancing policy, String servers, String chosen) {
        String[] words = servers.trim().split(" +");
        List<Server> there = new ArrayList<>();
        for (int i = 0; i < words.length; i += 4) {
            there.add(new Server(words[i], Integer.parseInt(words[i + 1]), Double.parseDouble(words[i + 2]),
                words[i + 3].equals("yes")));
        }
        Random random = new Random(1);
        String found = random.ints(200).mapToObj(i -> policy.choose(there, random).map(Server::id)
            .orElse("none")).distinct().sorted().collect(Collectors.joining(" "));
        assertEquals(chosen, found);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        // clients | outgoing | latency ms | CPU | received B/s | sent B/s | other admits   | admits | hands over
        "0         | 0        | 0          | 0   | 0            | 0        | yes            | yes    | 0",
        "10        | 20       | 20         | 0.3 | 100000       | 500000   | yes            | yes    | 0",
        "10        | 20       | 55         | 0.3 | 100000       | 500000   | yes            | no     | 0",
        "10        | 20       | 100        | 0.3 | 100000       | 500000   | yes            | no     | 5",
        "10        | 20       | 100        | 0.3 | 100000       | 500000   | no             | no     | 0",
        "20        | 45       | 20         | 0.3 | 100000       | 500000   | yes            | no     | 10",
        "10        | 20       | 20         | 0.95| 100000       | 500000   | yes            | no     | 0",
        "10        | 20       | 20         | 0.3 | 100000       | 1250000  | yes            | no     | 0",
        "10        | 20       | 20         | 0.3 | 100000       | 2250000  | yes            | no     | 5",
        "10        | 20       | 20         | 0.3 | 1250000      | 500000   | yes            | no     | 0",
        "10        | 20       | 20         | 0.3 | 2250000      | 500000   | yes            | no     | 5",
    })
    void aServerAdmitsRefusesOrHandsOver(int clients, double outgoing, double ms, double cpu, double received,
                                         double sent, String another, String admits, int handOver) {
        Decision decision = SelfOrganizing.decide(new Measured(clients, outgoing, ms, cpu, received, sent),
            Limits.USUAL, LatencyModel.ofThePaper(), List.of(new Server("b", 0, 1, another.equals("yes"))));
        assertEquals(admits.equals("yes"), decision.admit(), decision.toString());
        assertEquals(handOver, decision.handOver(), decision.toString());
    }

    @Test
    void unknownWordsNameThoseThereAre() {
        String said = assertThrows(IllegalArgumentException.class, () -> Scaling.of("magic")).getMessage();
        assertTrue(said.contains("threshold"));
        assertThrows(IllegalArgumentException.class, () -> Balancing.of("magic"));
    }
}
