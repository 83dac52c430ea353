package collaboration.server;

import static collaboration.server.Cloud.await;
import static collaboration.server.Cloud.get;
import static collaboration.server.Cloud.request;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import collaboration.client.Client;
import collaboration.managers.LatencyModel;
import collaboration.managers.SelfOrganizing;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.ToLongFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

@Timeout(60)
@Execution(ExecutionMode.CONCURRENT)
class CloudTest {
    private static String code(JsonObject answer) {
        return answer.getString("type").equals("error") ? answer.getString("code") : answer.getString("type");
    }

    private static long count(Client client, ToLongFunction<Client> question) {
        return get(client.look(question::applyAsLong));
    }

    @Test
    void membersOnTwoServersSeeOneOrder() throws Exception {
        try (Cloud cloud = new Cloud(2)) {
            List<Client> clients = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                clients.add(cloud.client("user" + i, i % 2));
            }
            assertEquals("state", code(get(clients.get(0).create("table", "free", "anyone"))));
            for (Client client : clients.subList(1, 6)) {
                Cloud.join(client, "table");
            }
            for (int i = 0; i < 50; i++) {
                for (Client client : clients) {
                    client.chat("message " + i);
                    client.sync("key" + i % 7, client.user + i);
                }
            }
            Cloud.settled(clients);
            assertEquals(6 + 600, count(clients.get(3), client -> client.state().order()));
            assertEquals(600, clients.stream().mapToLong(client -> get(client.look(one -> one.acknowledged)))
                .sum());
            Client late = cloud.client("late", 1);
            Cloud.join(late, "table");
            clients.add(late);
            Cloud.settled(clients);
            get(late.leave());
            clients.remove(late);
            Cloud.settled(clients);
        }
    }

    @Test
    void membersAtTheServerThatJoinedLastArePresentEverywhere() throws Exception {
        try (Cloud cloud = new Cloud(3)) {
            for (int i = 0; i < 3; i++) {
                Client client = cloud.client("user" + i, i);
                if (i == 0) {
                    assertEquals("state", code(get(client.create("table", "free", "anyone"))));
                } else {
                    Cloud.join(client, "table");
                }
            }
            for (CloudServer server : cloud.servers) {
                for (int i = 0; i < 3; i++) {
                    String user = "user" + i;
                    await(user + " is present for " + server.id, () ->
                        Cloud.on(server, () -> server.present(user, "table")));
                }
            }
        }
    }

    @Test
    void presenceInvitationAndControl() throws Exception {
        List<String> seen = new CopyOnWriteArrayList<>();
        try (Cloud cloud = new Cloud(2)) {
            Client ann = cloud.client("ann", 0);
            Client bob = cloud.client("bob", 1);
            assertEquals("ok", code(get(ann.ask(request("contacts")
                .put("users", new JsonArray().add("bob").add("cid"))))));
            assertEquals("state", code(get(ann.create("closed", "manager", "manager"))));
            assertEquals("not-invited", code(get(bob.join("closed"))));
            assertEquals("no-session", code(get(bob.join("nowhere"))));
            assertEquals("not-available", code(get(ann.ask(request("invite").put("user", "cid")))));
            await("bob is known to ann's server", () -> cloud.page(cloud.ports.get(0), "/presence/bob")
                .contains("online"));
            get(bob.ask(request("status").put("busy", true)));
            await("bob is busy", () -> cloud.page(cloud.ports.get(0), "/presence/bob").contains("busy"));
            assertEquals("not-available", code(get(ann.ask(request("invite").put("user", "bob")))));
            get(bob.ask(request("status").put("busy", false)));
            await("bob is free", () -> cloud.page(cloud.ports.get(0), "/presence/bob").contains("online"));
            assertEquals("ok", code(get(ann.ask(request("invite").put("user", "bob")))));
            assertEquals("state", code(get(bob.join("closed"))));
            await("bob is in the session", () -> cloud.page(cloud.ports.get(0), "/presence/bob")
                .contains("\"session\":\"closed\""));
            assertEquals("not-in-control", code(get(bob.ask(request("sync").put("number", 1).put("sent", 1)
                .put("key", "k").put("value", "v")))));
            assertEquals("not-invited", code(get(bob.ask(request("invite").put("user", "ann"))
                .thenApply(answer -> {
                seen.add(code(answer));
                return new JsonObject().put("type", "error").put("code", "not-invited");
            }))));
            assertEquals(List.of("not-available"), seen, "ann is in a session herself");
            assertEquals("not-in-control", code(get(bob.ask(request("control").put("control", "free")))));
            assertEquals("ok", code(get(ann.ask(request("control").put("control", "free")))));
            bob.sync("k", "v");
            Cloud.settled(List.of(ann, bob));
            assertEquals("v", get(ann.look(client -> client.state().workspace().get("k"))));
            get(ann.leave());
            await("bob manages", () -> "bob".equals(get(bob.look(client -> client.state().manager()))));
            bob.close();
            await("bob is offline", () -> cloud.page(cloud.ports.get(0), "/presence/bob")
                .contains("offline"));
        }
    }

    @Test
    void aFrameCrossesOnceAndReachesAllOthers() throws Exception {
        try (Cloud cloud = new Cloud(2)) {
            List<Client> clients = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                clients.add(cloud.client("user" + i, i < 4 ? 0 : 1));
                if (i == 0) {
                    get(clients.get(0).create("video", "free", "anyone"));
                } else {
                    Cloud.join(clients.get(i), "video");
                }
            }
            Cloud.settled(clients);
            get(clients.get(0).stream(true));
            await("frames arrive", () -> get(clients.get(7).look(client -> client.framesIn)) > 30);
            assertEquals(3 + 1, cloud.metric(0, "collaboration_streams_outgoing"));
            await("the other server knows of the stream", () ->
                cloud.metric(1, "collaboration_streams_outgoing") == 4);
            get(clients.get(0).stream(false));
            await("all has arrived", () -> cloud.metric(0, "collaboration_crossings_sent_total")
                == cloud.metric(1, "collaboration_crossings_received_total"));
            assertEquals(0, count(clients.get(0), client -> client.framesIn), "none comes back");
            double crossed = cloud.metric(0, "collaboration_crossings_sent_total");
            assertEquals(crossed, cloud.metric(0, "collaboration_frames_received_total"));
            assertEquals(4 * crossed, cloud.metric(1, "collaboration_frames_sent_total"));
            assertEquals(3 * crossed, cloud.metric(0, "collaboration_frames_sent_total"));
        }
    }

    @Test
    void aServerThatDiesIsTakenOver() throws Exception {
        try (Cloud cloud = new Cloud(3)) {
            List<Client> clients = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                clients.add(cloud.client("user" + i, i % 3));
            }
            for (int i = 0; i < 6; i++) {
                String session = "session" + i % 2;
                Client client = clients.get(i);
                if (i < 2) {
                    get(client.create(session, "free", "anyone"));
                } else {
                    Cloud.join(client, session);
                }
            }
            for (int i = 0; i < 200; i++) {
                for (Client client : clients) {
                    client.chat("message " + i);
                }
                if (i == 100) {
                    cloud.servers.get(0).halt();
                }
            }
            Cloud.settled(List.of(clients.get(0), clients.get(2), clients.get(4)));
            Cloud.settled(List.of(clients.get(1), clients.get(3), clients.get(5)));
            assertEquals(1200, clients.stream().mapToLong(client -> get(client.look(one -> one.acknowledged)))
                .sum());
            assertEquals(200, count(clients.get(4), client -> client.state().number("user0")));
        }
    }

    @Test
    void aServerThatLeavesHandsItsClientsAndSessionsOver() throws Exception {
        try (Cloud cloud = new Cloud(2)) {
            Client ann = cloud.client("ann", 0);
            Client bob = cloud.client("bob", 1);
            for (int i = 0; i < 6; i++) {
                Client other = cloud.client("other" + i, 0);
                get(other.create("other" + i, "free", "anyone"));
            }
            get(ann.create("table", "free", "anyone"));
            Cloud.join(bob, "table");
            ann.chat("before");
            Cloud.settled(List.of(ann, bob));
            Thread leaving = new Thread(() -> {
                try {
                    cloud.servers.get(0).stop();
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
            });
            leaving.start();
            ann.chat("meanwhile");
            bob.chat("meanwhile, too");
            leaving.join();
            Cloud.settled(List.of(ann, bob));
            assertEquals(8, cloud.metric(1, "collaboration_clients"));
            assertEquals(7, cloud.metric(1, "collaboration_homes"));
            assertEquals(0, cloud.metric(1, "collaboration_takeovers_total"),
                "none was left to be taken over");
            assertEquals(3, count(bob, client -> client.state().chats().size()));
        }
    }

    @Test
    void aServerThatIsWokenLoadsWhatTheOthersHave() throws Exception {
        try (Cloud cloud = new Cloud(1)) {
            Client ann = cloud.client("ann", 0);
            get(ann.create("table", "free", "anyone"));
            for (int i = 0; i < 300; i++) {
                ann.chat("message " + i);
            }
            CloudServer second = cloud.add(false, 0);
            assertTrue(cloud.page(cloud.ports.get(1), "/health").contains("STANDBY"));
            assertEquals(0, cloud.metric(1, "collaboration_sessions"));
            await("they know each other", () -> cloud.metric(0, "collaboration_group_members") == 2);
            CloudServer first = cloud.servers.get(0);
            first.loop.runOnContext(ignored -> first.send(second.id, new JsonObject().put("t", "wake")
                .put("boot", 0.01)));
            await("it serves", () -> cloud.page(cloud.ports.get(1), "/health").contains("ACTIVE"));
            Client bob = cloud.client("bob", 1);
            Cloud.join(bob, "table");
            Cloud.settled(List.of(ann, bob));
            assertEquals(300, count(bob, client -> client.state().number("ann")));
            cloud.servers.get(0).halt();
            await("ann is back", () -> get(ann.look(Client::ready)));
            ann.chat("again");
            Cloud.settled(List.of(ann, bob));
        }
    }

    @Test
    void aServerOverItsLimitTakesOnlyMembersWhoComeBack() throws Exception {
        try (Cloud cloud = new Cloud(0)) {
            cloud.periodS = 0.1;
            cloud.model = new LatencyModel(0, 0, 0, 1_000);
            cloud.limits = new SelfOrganizing.Limits(2_500, 100, 1e12, 1.2);
            cloud.add(true, 0);
            Client ann = cloud.client("ann", 0);
            assertEquals("state", code(get(ann.create("table", "free", "anyone"))));
            Client bob = cloud.client("bob", 0);
            cloud.client("cid", 0);
            await("the server admits nobody", () -> cloud.metric(0, "collaboration_admits") == 0);
            assertEquals("refused", code(get(bob.join("table"))));
            assertEquals("refused", code(get(bob.create("another", "free", "anyone"))));
            ann.close();
            await("ann's connection has ended", () -> cloud.metric(0, "collaboration_clients") == 2);
            assertEquals("state", code(get(cloud.client("ann", 0).join("table"))));
        }
    }

    @Test
    void aServerIsNotReadyWhileItLoads() throws Exception {
        try (Cloud cloud = new Cloud(1)) {
            // A member whose name nobody knows might hold sessions: a server that starts waits for it.
            Group unnamed = cloud.member("unnamed", Cloud.SECRET);
            unnamed.join();
            cloud.start(true, 0);
            await("it loads", () -> cloud.page(cloud.ports.get(1), "/health").contains("LOADING"));
            assertEquals(503, cloud.status(1, "/health"));
            unnamed.multicast(new JsonObject().put("t", "status").put("role", "balancer")
                .put("phase", "BALANCER"));
            await("it serves", () -> cloud.status(1, "/health") == 200);
            assertTrue(cloud.page(cloud.ports.get(1), "/health").contains("ACTIVE"));
            unnamed.close();
        }
    }

    @Test
    void aServerWithAnotherSecretStaysOutside() throws Exception {
        try (Cloud cloud = new Cloud(1)) {
            Client ann = cloud.client("ann", 0);
            get(ann.create("table", "free", "anyone"));
            Group stranger = cloud.member("stranger", "another secret");
            stranger.join();
            assertEquals(1, cloud.metric(0, "collaboration_group_members"));
            assertTrue(cloud.metric(0, "collaboration_group_refused") > 0);
            stranger.close();
        }
    }
}
