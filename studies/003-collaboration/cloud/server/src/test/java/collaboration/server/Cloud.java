package collaboration.server;

import collaboration.client.Client;
import collaboration.managers.LatencyModel;
import collaboration.managers.SelfOrganizing;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientResponse;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.WebSocket;
import io.vertx.core.http.WebSocketClient;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.function.Supplier;

/** Run servers of one cloud and clients within a test's own process. */
final class Cloud implements AutoCloseable {
    static final String SECRET = "a secret of tests";
    static final int BOUND_S = 20;
    private static final int FIRST_PORT = 10_000;
    private static final int PORTS = 20_000;
    /** Beside the tests of another process, begin elsewhere. */
    private static final AtomicInteger PORT = new AtomicInteger((int) (ProcessHandle.current().pid() * 97));
    final List<CloudServer> servers = new ArrayList<>();
    final List<Integer> ports = new ArrayList<>();
    final List<Integer> framesPorts = new ArrayList<>();
    final Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(1));
    /** Kept here: Vert.x closes a client, and its sockets, once it is garbage. */
    final WebSocketClient sockets = vertx.createWebSocketClient(Client.options());
    private final HttpClient pages = vertx.createHttpClient();
    private final Context context = vertx.getOrCreateContext();
    final List<InetSocketAddress> peers = new ArrayList<>();
    private final List<Client> clients = new ArrayList<>();
    /** Sockets of tests that are to be closed with the cloud. */
    final List<WebSocket> others = new CopyOnWriteArrayList<>();
    /** The managers of servers that are started from now on; the usual period is longer than any test. */
    double periodS = 3_600;
    LatencyModel model = LatencyModel.ofThePaper();
    SelfOrganizing.Limits limits = SelfOrganizing.Limits.USUAL;

    Cloud(int count) throws Exception {
        for (int i = 0; i < count; i++) {
            add(true, 0);
        }
    }

    /** Start one server more, and wait until it serves if it is to. */
    CloudServer add(boolean active, double bootS) throws Exception {
        CloudServer server = start(active, bootS);
        if (active) {
            await("server " + servers.size() + " serves", () -> status(servers.size() - 1, "/health") == 200);
        }
        return server;
    }

    CloudServer start(boolean active, double bootS) throws Exception {
        int group = free();
        peers.add(new InetSocketAddress("127.0.0.1", group));
        int port = free();
        int frames = free();
        CloudServer server = new CloudServer(new CloudServer.Settings("server-" + (servers.size() + 1),
            "127.0.0.1", port, group, frames, List.copyOf(peers), SECRET, active, bootS, periodS, 1, model,
            limits)).start();
        servers.add(server);
        ports.add(port);
        framesPorts.add(frames);
        return server;
    }

    /**
     * Find a free port below those that the kernel gives to clients, which might take it before it is used.
     */
    static int free() {
        while (true) {
            int port = FIRST_PORT + Math.floorMod(PORT.getAndIncrement(), PORTS);
            try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (IOException e) {
                // In use: try the next.
                continue;
            }
        }
    }

    /** Ask a server on its own event loop. */
    static <T> T on(CloudServer server, Supplier<T> question) {
        CompletableFuture<T> answer = new CompletableFuture<>();
        server.loop.runOnContext(ignored -> answer.complete(question.get()));
        return get(answer);
    }

    /** Make a member of the group that only listens. */
    Group member(String name, String secret) throws Exception {
        return new Group(name, new InetSocketAddress("127.0.0.1", free()), List.of(peers.get(0)),
            new Seal(secret), Runnable::run, new Group.Listener() {
                @Override
                public void received(String from, JsonObject message) {
                }

                @Override
                public void members(List<String> ids, boolean merged) {
                }
            });
    }

    /** Make a client that connects to one server, and after a break to any that serves. */
    Client client(String user, int server) {
        return client(user, server, new Client.Listener() { });
    }

    Client client(String user, int server, Client.Listener listener) {
        int[] tries = {server};
        Client client = new Client(vertx, sockets, context, user, () ->
            Future.succeededFuture(URI.create("ws://127.0.0.1:" + ports.get(tries[0]++ % ports.size())
            + "/v1/connect")), listener);
        clients.add(client);
        get(client.connect());
        return client;
    }

    /** Join a session; the client's server may not have it yet, where only a second one must. */
    static void join(Client client, String session) {
        await(client.user + " joins " + session, () ->
            get(client.join(session)).getString("type").equals("state"));
    }

    static <T> T get(CompletableFuture<T> future) {
        try {
            return future.get(BOUND_S, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new AssertionError("no answer within " + BOUND_S + " s: " + e, e);
        }
    }

    static void await(String what, BooleanSupplier condition) {
        await(() -> what, condition);
    }

    static void await(Supplier<String> what, BooleanSupplier condition) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(BOUND_S);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > until) {
                throw new AssertionError("not within " + BOUND_S + " s: " + what.get());
            }
            try {
                TimeUnit.MILLISECONDS.sleep(25);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }
    }

    String page(int port, String path) {
        return answer(port, path, response -> response.body().map(Buffer::toString));
    }

    int status(int server, String path) {
        return answer(ports.get(server), path, response -> Future.succeededFuture(response.statusCode()));
    }

    private <T> T answer(int port, String path, Function<HttpClientResponse, Future<T>> part) {
        CompletableFuture<T> answer = new CompletableFuture<>();
        // On the context, so that no part of an answer comes before its handler is there.
        context.runOnContext(ignored -> pages.request(HttpMethod.GET, port, "127.0.0.1", path)
            .compose(request -> request.send()).compose(part)
            .onSuccess(answer::complete).onFailure(answer::completeExceptionally));
        return get(answer);
    }

    /** Read one series of a server's Prometheus page. */
    double metric(int server, String name) {
        for (String line : page(ports.get(server), "/metrics").split("\n")) {
            if (line.startsWith(name + " ")) {
                return Double.parseDouble(line.substring(name.length() + 1));
            }
        }
        throw new AssertionError("there is no " + name);
    }

    /** Wait until all clients stand at one order with nothing waiting, and check that all hold one state. */
    static void settled(List<Client> clients) {
        await(() -> "all messages are acknowledged and everywhere: " + clients.stream()
            .map(client -> get(client.look(Client::standing))).toList(), () -> {
            long first = -1;
            for (Client client : clients) {
                long order = get(client.look(one -> one.ready() && one.waiting() == 0 && one.state() != null
                    ? one.state().order() : -2L));
                first = first == -1 ? order : first;
                if (order != first || order == -2) {
                    return false;
                }
            }
            return true;
        });
        List<String> digests = clients.stream().map(client -> get(client.look(one -> one.state().digest())))
            .distinct().toList();
        if (digests.size() != 1) {
            throw new AssertionError(digests.size() + " states at one order");
        }
        for (Client client : clients) {
            List<String> faults = get(client.look(one -> List.copyOf(one.faults)));
            if (!faults.isEmpty()) {
                throw new AssertionError(faults.size() + " faults, the first: " + faults.get(0));
            }
        }
    }

    static JsonObject request(String type) {
        return new JsonObject().put("type", type);
    }

    @Override
    public void close() throws Exception {
        clients.forEach(Client::close);
        others.forEach(WebSocket::close);
        for (CloudServer server : servers) {
            server.halt();
        }
        vertx.close().toCompletionStage().toCompletableFuture().get(BOUND_S, TimeUnit.SECONDS);
    }
}
