package collaboration.balancer;

import collaboration.managers.Balancing;
import collaboration.managers.Scaling;
import collaboration.protocol.Request;
import collaboration.server.ConnectionGuard;
import collaboration.server.Group;
import collaboration.server.Seal;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpClient;
import io.vertx.core.http.HttpClientOptions;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.PoolOptions;
import io.vertx.core.json.JsonObject;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * Send clients to servers, and as the self-optimizing manager add and remove servers; all on one event loop.
 */
public final class Balancer implements Group.Listener {
    /** Configure a balancer. */
    public record Settings(String host, int port, int groupPort, List<InetSocketAddress> peers, String secret,
                           Balancing balancing, Scaling scaling, Scaling.Settings bounds, double periodS,
                           double bootS) {
    }

    private static final long STATUS_MS = 1_000;
    private static final int BODY_BYTES = 4 * 1024 * 1024;
    private final Settings settings;
    private final Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(1).setWorkerPoolSize(1)
        .setInternalBlockingPoolSize(2));
    private final Context loop = vertx.getOrCreateContext();
    private final HttpClient client = vertx.createHttpClient(new HttpClientOptions().setConnectTimeout(1_000),
        new PoolOptions().setHttp1MaxSize(64).setMaxWaitQueueSize(1_000));
    private final Group group;
    private final Random random = new Random();
    /** Servers: id → last status, and the clients sent there since. */
    private final Map<String, JsonObject> servers = new LinkedHashMap<>();
    private final Map<String, Integer> sentSince = new LinkedHashMap<>();
    private final Buffer page = Buffer.buffer(resource("/collaboration/page.html"));
    private Scaling.Memory memory = Scaling.Memory.NONE;
    private final long startNs = System.nanoTime();
    private long accountedNs = System.nanoTime();
    private double serverS;
    private boolean served;
    private long placed;
    private long refused;
    private long woken;
    private long drained;
    private long passed;
    private long failed;
    private long halfOpen;

    public Balancer(Settings settings) throws Exception {
        this.settings = settings;
        group = new Group("balancer." + Long.toHexString(System.nanoTime() & 0xffffff),
            new InetSocketAddress(settings.host(), settings.groupPort()), settings.peers(),
            new Seal(settings.secret()), task -> loop.runOnContext(ignored -> task.run()), this);
    }

    private static byte[] resource(String name) {
        try (InputStream stream = Objects.requireNonNull(Balancer.class.getResourceAsStream(name))) {
            return stream.readAllBytes();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Start; returns once it answers. */
    public Balancer start() throws Exception {
        group.join();
        loop.runOnContext(ignored -> {
            vertx.setPeriodic(STATUS_MS, timer -> {
                account();
                sendStatus();
            });
            vertx.setPeriodic(Math.max(1, (long) (settings.periodS() * 1e3)), timer -> manage());
        });
        HttpServer http = vertx.createHttpServer(new HttpServerOptions().setHost(settings.host())
            .setPort(settings.port()).setIdleTimeout(30).setMaxInitialLineLength(2_048)
            .setMaxHeaderSize(4_096).setHttp2ClearTextEnabled(false)).requestHandler(this::answer);
        ConnectionGuard.guard(http, () -> halfOpen++);
        http.listen().toCompletionStage().toCompletableFuture().get(5, TimeUnit.SECONDS);
        System.err.println(group.id + ": listens at http://" + settings.host() + ":" + settings.port());
        return this;
    }

    /** Stop. */
    public void stop() throws Exception {
        group.close();
        vertx.close().toCompletionStage().toCompletableFuture().get(5, TimeUnit.SECONDS);
    }

    // ---- the group

    private void sendStatus() {
        group.multicast(new JsonObject().put("t", "status").put("role", "balancer").put("phase", "BALANCER"));
    }

    @Override
    public void received(String from, JsonObject message) {
        if ("status".equals(message.getString("t")) && "server".equals(message.getString("role"))) {
            account();
            servers.put(from, message);
            sentSince.remove(from);
        }
    }

    @Override
    public void members(List<String> ids, boolean merged) {
        account();
        servers.keySet().retainAll(ids);
        sendStatus();
    }

    private String phase(JsonObject server) {
        return server.getString("phase");
    }

    // ---- the balancer

    /** Choose a server; clients sent to one since its last status count as its clients. */
    private Optional<JsonObject> choose() {
        List<Balancing.Server> candidates = new ArrayList<>();
        servers.forEach((id, status) -> candidates.add(new Balancing.Server(id,
            status.getInteger("clients") + sentSince.getOrDefault(id, 0), status.getDouble("predicted"),
            status.getBoolean("admits"))));
        Optional<Balancing.Server> chosen = settings.balancing().choose(candidates, random);
        return chosen.map(one -> servers.get(one.id()));
    }

    private void answer(HttpServerRequest request) {
        String path = request.path();
        if (request.method() != HttpMethod.GET) {
            json(request, 405, new JsonObject().put("error", "only GET"));
            return;
        }
        switch (path) {
            case "/" -> request.response().putHeader("content-type", "text/html; charset=utf-8").end(page);
            case "/health" -> json(request, 200, new JsonObject().put("servers", serving()));
            case "/metrics" -> request.response().putHeader("content-type", "text/plain; version=0.0.4")
                .end(metrics());
            case "/v1/place", "/v1/connect" -> place(request, path.equals("/v1/connect"));
            default -> {
                if (path.equals("/sessions") || path.startsWith("/sessions/")
                    || path.startsWith("/presence/")) {
                    pass(request);
                } else {
                    json(request, 404, new JsonObject().put("error", "there is no such page"));
                }
            }
        }
    }

    private static void json(HttpServerRequest request, int status, JsonObject body) {
        request.response().setStatusCode(status).putHeader("content-type", "application/json")
            .end(body.encode());
    }

    private void place(HttpServerRequest request, boolean redirect) {
        String user = request.getParam("user");
        if (user != null && !Request.isName(user)) {
            json(request, 400, new JsonObject().put("error", "name"));
            return;
        }
        Optional<JsonObject> chosen = choose();
        if (chosen.isEmpty()) {
            refused++;
            request.response().putHeader("Retry-After", "1");
            json(request, 503, new JsonObject().put("error", "no server admits anyone now"));
            return;
        }
        placed++;
        JsonObject server = chosen.get();
        sentSince.merge(server.getString("from"), 1, Integer::sum);
        String url = "ws://" + server.getString("host") + ":" + server.getInteger("port") + "/v1/connect";
        if (redirect) {
            request.response().putHeader("Location", url);
        }
        json(request, redirect ? 307 : 200, new JsonObject().put("url", url)
            .put("server", server.getString("name")));
    }

    /** Ask any serving server and pass its answer on: all have the same sessions and users. */
    private void pass(HttpServerRequest request) {
        List<JsonObject> candidates = servers.values().stream().filter(one -> phase(one).equals("ACTIVE"))
            .toList();
        if (candidates.isEmpty()) {
            refused++;
            json(request, 503, new JsonObject().put("error", "no server serves now"));
            return;
        }
        JsonObject server = candidates.get(random.nextInt(candidates.size()));
        client.request(HttpMethod.GET, server.getInteger("port"), server.getString("host"), request.path())
            .compose(asked -> asked.send()).compose(answered -> answered.body().compose(body -> {
                if (body.length() > BODY_BYTES) {
                    return Future.failedFuture("the answer is too large");
                }
                passed++;
                return request.response().setStatusCode(answered.statusCode())
                    .putHeader("content-type", "application/json").end(body);
            })).onFailure(error -> {
                failed++;
                if (!request.response().ended()) {
                    json(request, 502, new JsonObject().put("error", server.getString("name")
                        + " did not answer"));
                }
            });
    }

    // ---- the self-optimizing manager

    private int serving() {
        return (int) servers.values().stream().filter(one -> phase(one).equals("ACTIVE")).count();
    }

    private int booting() {
        return (int) servers.values().stream()
            .filter(one -> phase(one).equals("BOOTING") || phase(one).equals("LOADING")).count();
    }

    /** Add the time since the last call to the server-hours, for each server that is awake. */
    private void account() {
        long now = System.nanoTime();
        long awake = servers.values().stream().filter(one -> !phase(one).equals("STANDBY")).count();
        serverS += awake * (now - accountedNs) / 1e9;
        accountedNs = now;
    }

    private void manage() {
        double load = servers.values().stream().filter(one -> phase(one).equals("ACTIVE"))
            .mapToDouble(one -> one.getDouble("load")).average().orElse(0);
        Scaling.Observation seen = new Scaling.Observation((System.nanoTime() - startNs) / 1e9, serving(),
            booting(), load);
        served |= seen.active() > 0;
        if (!served || seen.servers() == 0 && settings.scaling() == Scaling.STATIC) {
            // Before the first server serves, a decision would only start the cooldown.
            return;
        }
        // A decision to wake a server that is not there would only start the cooldown.
        Scaling.Step step = settings.scaling().decide(seen, memory, settings.bounds().within(servers.size()));
        memory = step.memory();
        if (step.servers() != seen.servers()) {
            System.err.println(group.id + ": " + settings.scaling().name().toLowerCase(Locale.ROOT)
                + " wants " + step.servers() + " servers in place of " + seen.servers() + " (" + step.reason()
                + ")");
        }
        change(step.servers() - seen.servers());
    }

    private void change(int by) {
        if (by > 0) {
            servers.entrySet().stream().filter(one -> phase(one.getValue()).equals("STANDBY")).limit(by)
                .toList().forEach(one -> {
                    woken++;
                    group.send(one.getKey(), new JsonObject().put("t", "wake").put("boot", settings.bootS()));
                });
        } else if (by < 0) {
            servers.entrySet().stream().filter(one -> phase(one.getValue()).equals("ACTIVE"))
                .sorted(Comparator.comparingInt(one -> one.getValue().getInteger("clients"))).limit(-by)
                .toList().forEach(one -> {
                    drained++;
                    group.send(one.getKey(), new JsonObject().put("t", "drain"));
                });
        }
    }

    private String metrics() {
        account();
        StringBuilder text = new StringBuilder();
        series(text, "servers_serving", "gauge", "Servers that serve", serving());
        series(text, "servers_booting", "gauge", "Servers that were woken and are not serving yet",
            booting());
        series(text, "servers_known", "gauge", "Servers in the group", servers.size());
        series(text, "cloud_clients", "gauge", "Clients of all servers",
            servers.values().stream().mapToInt(one -> one.getInteger("clients")).sum());
        series(text, "cloud_outgoing_mean", "gauge", "Outgoing streams, mean over servers that serve",
            servers.values().stream().filter(one -> phase(one).equals("ACTIVE"))
            .mapToInt(one -> one.getInteger("outgoing")).average().orElse(0));
        series(text, "server_hours_total", "counter", "Server-hours from waking to the end of draining",
            serverS / 3_600);
        series(text, "placed_total", "counter", "Clients sent to a server", placed);
        series(text, "placed_nowhere_total", "counter", "Clients and requests for which there was no server",
            refused);
        series(text, "passed_total", "counter", "Answers passed on", passed);
        series(text, "passed_failed_total", "counter", "Requests passed on that were not answered", failed);
        series(text, "half_open_total", "counter", "Connections ended without a whole request", halfOpen);
        series(text, "woken_total", "counter", "Servers woken by the manager", woken);
        series(text, "drained_total", "counter", "Servers drained by the manager", drained);
        return text.toString();
    }

    private static void series(StringBuilder text, String name, String type, String help, double value) {
        text.append(String.format(Locale.ROOT, "# HELP collaboration_%s %s%n# TYPE collaboration_%s %s%n"
            + "collaboration_%s %s%n", name, help, name, type, name, value));
    }
}
