package collaboration.balancer;

import static collaboration.balancer.Crowd.get;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.client.Client;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Start a whole cloud of processes, as by hand. */
@Timeout(90)
class BalancerTest {
    /** An address and states of sockets, as /proc/net writes them. */
    private static final String LOOPBACK = "0100007F";
    private static final String LISTEN = "0A";
    private static final String UNCONNECTED = "07";

    @Test
    void aCloudOfProcessesServesScalesAndCountsItsHours() throws Exception {
        try (CloudProcesses cloud = new CloudProcesses(21_000); Crowd crowd = new Crowd(cloud.port)) {
            cloud.balancer("--balancing", "connections", "--scaling", "threshold", "--period", "0.5",
                "--boot", "0.5", "--most", "2");
            long beforeNs = System.nanoTime();
            cloud.server(1);
            cloud.await(1);
            double startS = (System.nanoTime() - beforeNs) / 1e9;
            System.out.printf("a server serves %.2f s after its start%n", startS);
            assertEquals(Set.of(LOOPBACK), addresses(cloud.process("balancer").pid()));
            assertEquals(Set.of(LOOPBACK), addresses(cloud.process("server-1").pid()));
            List<Client> clients = new ArrayList<>();
            for (int i = 0; i < 14; i++) {
                clients.add(crowd.client("user" + i));
                get(i == 0 ? clients.get(0).create("table", "free", "anyone") : clients.get(i).join("table"));
            }
            for (Client client : clients.subList(0, 3)) {
                assertEquals("ok", get(client.stream(true)).getString("type"));
            }
            // The manager has wanted it for a while when it comes.
            cloud.server(2, "--start", "standby");
            Crowd.await("a server is woken by the load", 60, () -> health(cloud).contains("\"servers\":2}"));
            assertTrue(Crowd.metric(cloud, cloud.port, "collaboration_woken_total") >= 1);
            clients.add(crowd.client("late"));
            get(clients.get(14).join("table"));
            clients.get(14).chat("hello");
            Crowd.settled(clients);
            assertTrue(cloud.get(cloud.port, "/sessions").contains("\"session\":\"table\""));
            assertTrue(cloud.get(cloud.port, "/presence/late").contains("\"status\":\"session\""));
            assertTrue(cloud.get(cloud.port, "/").contains("<title>Collaboration cloud</title>"));
            assertTrue(Crowd.metric(cloud, cloud.port, "collaboration_server_hours_total") > 0);
        }
    }

    /** Return the addresses at which a process listens or receives datagrams, as /proc/net writes them. */
    private static Set<String> addresses(long pid) throws IOException {
        Set<String> own;
        try (Stream<Path> open = Files.list(Path.of("/proc", Long.toString(pid), "fd"))) {
            own = open.map(BalancerTest::socket).collect(Collectors.toSet());
        }
        Set<String> found = new TreeSet<>();
        for (String kind : List.of("tcp", "tcp6", "udp", "udp6")) {
            for (String line : Files.readAllLines(Path.of("/proc", Long.toString(pid), "net", kind))) {
                String[] cells = line.trim().split(" +");
                if (cells[3].equals(kind.startsWith("tcp") ? LISTEN : UNCONNECTED)
                    && own.contains(cells[9])) {
                    found.add(cells[1].replaceFirst("^0{16}F{4}0{4}", "").replaceFirst(":.*", ""));
                }
            }
        }
        return found;
    }

    /** Return the inode of an open socket. */
    private static String socket(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString().replaceAll("socket:\\[(\\d+)]", "$1");
        } catch (IOException e) {
            return "closed meanwhile";
        }
    }

    private static String health(CloudProcesses cloud) {
        try {
            return cloud.get(cloud.port, "/health");
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void wrongOptionsAreNamed() {
        String[] none = {"--port", "x"};
        assertThrows(IllegalArgumentException.class, () -> BalancerMain.settings(none, "a long secret"));
        String[] unknown = {"--colour", "red"};
        assertTrue(assertThrows(IllegalArgumentException.class, () -> BalancerMain.settings(unknown, ""))
            .getMessage().contains("--scaling"));
    }
}
