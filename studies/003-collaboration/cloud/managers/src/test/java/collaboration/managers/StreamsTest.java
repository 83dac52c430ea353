package collaboration.managers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class StreamsTest {
    private static final Path ROWS = Path.of("../../reference/results.csv");

    /** One row of the paper's tables; users are all of the cloud's, shared out evenly. */
    private record Row(int servers, int sessions, int streams, int perSession, int printed, double medianMs) {
        static Row of(String line) {
            String[] cells = line.split(",");
            String[] test = cells[0].split("/");
            int servers = Integer.parseInt(test[0]);
            int sessions = Integer.parseInt(test[1]);
            int users = Integer.parseInt(cells[1]);
            int perSession = switch (cells[2]) {
                case "users", "users per session" -> users;
                case "users per server", "users per session per server" -> users * servers;
                default -> throw new IllegalArgumentException(cells[2]);
            };
            return new Row(servers, sessions, Integer.parseInt(test[2]), perSession,
                Integer.parseInt(cells[9]), Double.parseDouble(cells[3]));
        }

        List<String> names() {
            return IntStream.range(0, servers).mapToObj(i -> "s" + i).toList();
        }
    }

    private static List<Row> rows() throws IOException {
        return Files.readAllLines(ROWS).stream().skip(1).map(Row::of).toList();
    }

    @Test
    void allPrintedRowsAreCountedAsThePaperPrintsThem() throws IOException {
        List<Row> rows = rows();
        assertEquals(60, rows.size());
        for (Row row : rows) {
            List<Streams.Session> sessions = new ArrayList<>();
            for (int i = 0; i < row.sessions(); i++) {
                int streaming = row.streams() / row.sessions() + (i < row.streams() % row.sessions() ? 1 : 0);
                sessions.add(Streams.even(row.names(), row.perSession(), streaming));
            }
            assertEquals(row.printed(), Streams.mean(row.names(), sessions), 1e-9, row.toString());
        }
    }

    @Test
    void aStreamCrossesOnceHoweverManyMembersSitThere() {
        Streams.Session session = new Streams.Session(Map.of("a", 1, "b", 9, "c", 1), Map.of("a", 1));
        assertEquals(2, Streams.outgoing("a", List.of(session)));
        assertEquals(9, Streams.outgoing("b", List.of(session)));
        assertEquals(1, Streams.outgoing("c", List.of(session)));
    }

    @Test
    void theModelOfThePaperExplainsItsRows() throws IOException {
        LatencyModel model = LatencyModel.ofThePaper();
        List<Row> rows = rows();
        double mean = rows.stream().mapToDouble(Row::medianMs).average().orElseThrow();
        double left = 0;
        double all = 0;
        for (Row row : rows) {
            double users = (double) row.perSession() * row.sessions() / row.servers();
            double squared = model.perStreamSquared() * row.printed() * row.printed();
            double predicted = model.intercept() + model.perStream() * row.printed() + squared
                + model.perUser() * users;
            left += Math.pow(row.medianMs() - predicted, 2);
            all += Math.pow(row.medianMs() - mean, 2);
        }
        assertEquals(0.805, 1 - left / all, 0.001);
        assertTrue(model.latencyMs(0, 5) <= model.latencyMs(30, 5), "more streams never look better");
        double most = model.capacity(50, 1);
        assertEquals(50, model.latencyMs(most, most), 0.01);
    }
}
