package collaboration.balancer;

import static java.util.stream.Collectors.joining;

import collaboration.client.Client;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.WebSocketClient;
import io.vertx.core.json.JsonObject;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;

/** Be many users, who find their servers by the balancer. */
final class Crowd implements AutoCloseable {
    static final int BOUND_S = 30;
    final Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(1));
    private final WebSocketClient sockets = vertx.createWebSocketClient(Client.options());
    private final HttpClient http = vertx.createHttpClient();
    private final Context context = vertx.getOrCreateContext();
    private final int balancer;
    final List<Client> clients = new ArrayList<>();

    Crowd(int balancerPort) {
        balancer = balancerPort;
    }

    Client client(String user) {
        return client(user, places(user));
    }

    /** Return how a user finds a server: by asking the balancer. */
    Supplier<Future<URI>> places(String user) {
        return () -> http.request(HttpMethod.GET, balancer, "127.0.0.1", "/v1/place?user=" + user)
            .compose(asked -> asked.send()).compose(came -> came.body())
            .map(body -> URI.create(new JsonObject(body).getString("url")));
    }

    Client at(String user, int port) {
        return client(user, () -> Future.succeededFuture(URI.create("ws://127.0.0.1:" + port
            + "/v1/connect")));
    }

    private Client client(String user, Supplier<Future<URI>> places) {
        Client client = new Client(vertx, sockets, context, user, places, new Client.Listener() { });
        clients.add(client);
        get(client.connect());
        return client;
    }

    static <T> T get(CompletableFuture<T> future) {
        try {
            return future.get(BOUND_S, TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new AssertionError("no answer within " + BOUND_S + " s: " + e, e);
        }
    }

    static long count(Client client, ToLongFunction<Client> question) {
        return get(client.look(question::applyAsLong));
    }

    /** Sum over all clients, in one look. */
    long sum(ToLongFunction<Client> question) {
        CompletableFuture<Long> answer = new CompletableFuture<>();
        context.runOnContext(ignored -> answer.complete(clients.stream().mapToLong(question).sum()));
        return get(answer);
    }

    static void await(String what, int boundS, BooleanSupplier condition) {
        await(() -> what, boundS, condition);
    }

    static void await(Supplier<String> what, int boundS, BooleanSupplier condition) {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(boundS);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > until) {
                throw new AssertionError("not within " + boundS + " s: " + what.get());
            }
            pause(20);
        }
    }

    static void pause(long ms) {
        try {
            TimeUnit.MILLISECONDS.sleep(ms);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Wait until these clients have one state and nothing waits; throws where a promise was broken. */
    static void settled(List<Client> clients) {
        await(() -> "one state everywhere: " + standing(clients), BOUND_S, () -> clients.stream()
            .map(client -> get(client.look(one -> one.ready() && one.waiting() == 0 && one.state() != null
            ? one.state().order() : -1L))).distinct().toList()
            .equals(List.of(count(clients.get(0), one -> one.state() == null ? -2 : one.state().order()))));
        if (clients.stream().map(client -> get(client.look(one -> one.state().digest()))).distinct()
            .count() != 1) {
            throw new AssertionError("more than one state at one order");
        }
        clients.forEach(client -> {
            List<String> faults = get(client.look(one -> List.copyOf(one.faults)));
            if (!faults.isEmpty()) {
                throw new AssertionError(faults.size() + " faults, the first: " + faults.get(0));
            }
        });
    }

    /** Describe where each client stands, for a failure's message. */
    static String standing(List<Client> clients) {
        return clients.stream().map(client -> get(client.look(Client::standing))).collect(joining("; "));
    }

    /** Read one series of a Prometheus page. */
    static double metric(CloudProcesses cloud, int port, String name) throws InterruptedException {
        for (String line : cloud.get(port, "/metrics").split("\n")) {
            if (line.startsWith(name + " ")) {
                return Double.parseDouble(line.substring(name.length() + 1));
            }
        }
        throw new AssertionError("there is no " + name + " at " + port);
    }

    /** Print a result for the README. */
    static void report(String format, Object... values) {
        System.out.println("RESULT " + String.format(Locale.ROOT, format, values));
    }

    @Override
    public void close() throws Exception {
        clients.forEach(Client::close);
        vertx.close().toCompletionStage().toCompletableFuture().get(10, TimeUnit.SECONDS);
    }
}
