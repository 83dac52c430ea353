package collaboration.balancer;

import static collaboration.balancer.Crowd.get;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.client.Client;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Start a whole cloud of processes, as by hand. */
@Timeout(90)
class BalancerTest {
    @Test
    void aCloudOfProcessesServesScalesAndCountsItsHours() throws Exception {
        try (CloudProcesses cloud = new CloudProcesses(21_000); Crowd crowd = new Crowd(cloud.port)) {
            cloud.balancer("--balancing", "connections", "--scaling", "threshold", "--period", "0.5", "--boot", "0.5",
                "--most", "2");
            long beforeNs = System.nanoTime();
            cloud.server(1);
            cloud.await(1);
            double startS = (System.nanoTime() - beforeNs) / 1e9;
            System.out.printf("a server serves %.2f s after its start%n", startS);
            cloud.server(2, "--start", "standby");
            List<Client> clients = new ArrayList<>();
            for (int i = 0; i < 14; i++) {
                clients.add(crowd.client("user" + i));
                get(i == 0 ? clients.get(0).create("table", "free", "anyone") : clients.get(i).join("table"));
            }
            for (Client client : clients.subList(0, 3)) {
                assertEquals("ok", get(client.stream(true)).getString("type"));
            }
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
        assertTrue(assertThrows(IllegalArgumentException.class, () -> BalancerMain.settings(unknown, "")).getMessage()
            .contains("--scaling"));
    }
}
