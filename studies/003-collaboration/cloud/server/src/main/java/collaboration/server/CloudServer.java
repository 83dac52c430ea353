package collaboration.server;

import collaboration.managers.Balancing;
import collaboration.managers.LatencyModel;
import collaboration.managers.SelfOrganizing;
import collaboration.managers.Streams;
import collaboration.protocol.Frame;
import collaboration.protocol.Limits;
import collaboration.protocol.Misuse;
import collaboration.protocol.Misuse.Code;
import collaboration.protocol.Request;
import io.vertx.core.Context;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.ServerWebSocket;
import io.vertx.core.http.ServerWebSocketHandshake;
import io.vertx.core.internal.http.WebSocketInternal;
import io.vertx.core.json.JsonArray;
import io.vertx.core.json.JsonObject;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Serve clients: the connections, what they ask for, their frames. All of it runs on one event loop. */
public final class CloudServer implements Sessions.Outside, Group.Listener {
    /** Configure a server. Its CPU is measured against the quota `cpus`; waking takes `bootS`. */
    public record Settings(String name, String host, int port, int groupPort, int framesPort,
                           List<InetSocketAddress> peers, String secret, boolean active, double bootS,
                           double periodS, double cpus, LatencyModel model, SelfOrganizing.Limits limits) {
    }

    /**
     * List the phases: only an active server admits clients; loading, active and draining ones hold sessions.
     */
    enum Phase { STANDBY, BOOTING, LOADING, ACTIVE, DRAINING }

    static {
        // Vert.x's resolver of names opens a port at all addresses; Java's does not.
        System.setProperty("vertx.disableDnsResolver", "true");
    }

    private static final long TICK_MS = 250;
    private static final long STATUS_MS = 1_000;
    private static final long MOVE_WITHIN_MS = 2_000;
    private static final long LOAD_AGAIN_MS = 1_000;
    /** A client that does not read cannot answer a close frame: after this long its connection is cut. */
    private static final int CLOSING_WITHIN_S = 2;
    private final Settings settings;
    public final String id;
    private final Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(1).setWorkerPoolSize(1)
        .setInternalBlockingPoolSize(2));
    final Context loop = vertx.getOrCreateContext();
    private final Counts counts = new Counts();
    private final Sessions sessions;
    private final Presence presence;
    private final Group group;
    private final Crossings crossings;
    private final SelfOrganizer organizer;
    private HttpServer http;
    private final Set<Connection> connections = new HashSet<>();
    private final Map<String, Connection> users = new HashMap<>();
    /** Session → its clients here. */
    private final Map<String, Set<Connection>> members = new HashMap<>();
    private final Map<String, Set<Connection>> watchers = new HashMap<>();
    /** The other members of the group: id → its last status. */
    private final Map<String, JsonObject> others = new LinkedHashMap<>();
    /** While loading: the servers whose state has not arrived; null: not yet known which servers have one. */
    private Set<String> loadingFrom;
    private Phase phase = Phase.STANDBY;
    private boolean admits = true;
    private double predictedMs;
    private long bootTimer = -1;
    private double wokenS = Double.NaN;
    private double servedS;
    /** Completed when this server has handed everything over before it stops; null: it is not stopping. */
    private CompletableFuture<Void> handedOver;
    private long now = System.currentTimeMillis();

    public CloudServer(Settings settings) throws Exception {
        this.settings = settings;
        String unique = Long.toHexString(System.nanoTime() ^ ProcessHandle.current().pid() << 32);
        id = settings.name() + "." + unique.substring(Math.max(0, unique.length() - 6));
        Seal seal = new Seal(settings.secret());
        sessions = new Sessions(id, this, counts);
        crossings = new Crossings(vertx, seal, counts);
        group = new Group(id, new InetSocketAddress(settings.host(), settings.groupPort()), settings.peers(),
            seal, task -> loop.runOnContext(ignored -> task.run()), this);
        presence = new Presence(id, others::containsKey, message -> group.multicast(message),
            this::presenceChanged);
        organizer = new SelfOrganizer(settings, loop, counts, this::outgoing, this::clients, this::servers,
            this::decided);
    }

    /** Start; returns once it answers. */
    public CloudServer start() throws Exception {
        HttpServerOptions options = new HttpServerOptions().setHost(settings.host()).setPort(settings.port())
            .setMaxWebSocketFrameSize(Limits.MESSAGE_BYTES).setMaxWebSocketMessageSize(Limits.MESSAGE_BYTES)
            .setSendBufferSize(Limits.FRAMES_WAITING_BYTES).setTcpNoDelay(true).setIdleTimeout(30)
            .setHttp2ClearTextEnabled(false).setWebSocketClosingTimeout(CLOSING_WITHIN_S)
            .setMaxInitialLineLength(2_048).setMaxHeaderSize(4_096);
        http = vertx.createHttpServer(options).requestHandler(this::page)
            .webSocketHandshakeHandler(this::handshake).webSocketHandler(this::connected);
        ConnectionGuard.guard(http, () -> counts.ended(Counts.HALF_OPEN));
        crossings.listen(settings.host(), settings.framesPort(), this::crossed).toCompletionStage()
            .toCompletableFuture().get(5, TimeUnit.SECONDS);
        group.join();
        loop.runOnContext(ignored -> {
            if (settings.active()) {
                wake(0);
            }
            vertx.setPeriodic(TICK_MS, timer -> tick());
            vertx.setPeriodic(STATUS_MS, timer -> sendStatus());
        });
        http.listen().toCompletionStage().toCompletableFuture().get(5, TimeUnit.SECONDS);
        organizer.start();
        return this;
    }

    /** Hand all clients and sessions over, then stop; bounded by two moves. */
    public void stop() throws Exception {
        CompletableFuture<Void> done = new CompletableFuture<>();
        loop.runOnContext(ignored -> {
            handedOver = done;
            drain();
        });
        try {
            done.get(2 * MOVE_WITHIN_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            System.err.println(id + ": stops before everything was handed over");
        }
        halt();
    }

    /** Stop at once: connections break. */
    public void halt() throws Exception {
        organizer.interrupt();
        group.close();
        vertx.close().toCompletionStage().toCompletableFuture().get(5, TimeUnit.SECONDS);
    }

    // ---- connections

    private void handshake(ServerWebSocketHandshake handshake) {
        if (handshake.path().equals("/v1/connect")) {
            handshake.accept();
        } else {
            handshake.reject(404);
        }
    }

    private void connected(ServerWebSocket socket) {
        now = System.currentTimeMillis();
        Connection client = new Connection(socket, counts, now);
        // A broken connection is handled where it closes.
        socket.exceptionHandler(error -> { });
        ((WebSocketInternal) socket).channelHandlerContext().pipeline().addFirst(new SizeGuard(() ->
            client.refuse(null, new Misuse(Code.TOO_LARGE, "a message has at most " + Limits.MESSAGE_BYTES
            + " bytes"))));
        if (connections.size() >= Limits.CONNECTIONS || phase != Phase.ACTIVE) {
            client.end(Code.FULL, phase == Phase.ACTIVE ? "this server has all the connections it takes"
                : "this server does not serve now");
            return;
        }
        connections.add(client);
        socket.textMessageHandler(text -> request(client, text));
        socket.binaryMessageHandler(frame -> frame(client, frame));
        socket.pongHandler(pong -> ponged(client, pong));
        socket.closeHandler(ignored -> gone(client));
        vertx.setTimer(Limits.HELLO_WITHIN_MS, timer -> {
            if (client.user.isEmpty()) {
                client.end(Code.HELLO_LATE, "no hello came within " + Limits.HELLO_WITHIN_MS + " ms");
            }
        });
    }

    private void ponged(Connection client, Buffer pong) {
        now = System.currentTimeMillis();
        double ms = client.ponged(pong, now);
        if (ms >= 0) {
            counts.roundTrip.add(ms);
        }
    }

    private void gone(Connection client) {
        client.ended(Counts.LEFT);
        connections.remove(client);
        client.contacts.forEach(user -> unwatch(client, user));
        detach(client);
        if (users.remove(client.user, client)) {
            presence.set(client.user, "offline", null, client.sinceMs);
        }
    }

    private void detach(Connection client) {
        if (client.session != null) {
            Set<Connection> attached = members.get(client.session);
            if (attached != null && attached.remove(client) && attached.isEmpty()) {
                members.remove(client.session);
            }
            client.session = null;
            client.streaming = false;
        }
    }

    private void attach(Connection client, Replica session) {
        client.session = session.state.name;
        members.computeIfAbsent(client.session, name -> new HashSet<>()).add(client);
        client.joining = null;
        client.answeredJoin = client.joinId;
        publishPresence(client);
        List<JsonObject> missed = client.joinAfter == null ? null : session.after(client.joinAfter);
        if (missed == null) {
            client.send(state(session, client).put("id", client.joinId));
            return;
        }
        client.send(new JsonObject().put("type", "resumed").put("id", client.joinId)
            .put("session", client.session).put("order", session.state.order()));
        missed.forEach(event -> client.send(eventText(client.session, event)));
    }

    private static JsonObject state(Replica session, Connection client) {
        return session.state.toJson().put("type", "state").put("number", session.state.number(client.user))
            .put("digest", session.state.digest());
    }

    private void publishPresence(Connection client) {
        presence.set(client.user, client.session != null ? "session" : client.busy ? "busy" : "online",
            client.session, client.sinceMs);
    }

    // ---- requests

    private void request(Connection client, String text) {
        now = System.currentTimeMillis();
        counts.requests++;
        counts.receivedBytes += text.length();
        String id = null;
        try {
            if (client.closed()) {
                return;
            }
            client.within(false, now);
            Request request = Request.read(text);
            id = request.id();
            if (client.user.isEmpty() != (request.type() == Request.Type.HELLO)) {
                throw client.user.isEmpty() ? new Misuse(Code.HELLO_MISSING, "say hello first")
                    : new Misuse(Code.HELLO_TWICE, "hello came already");
            }
            carryOut(client, request);
        } catch (Misuse misuse) {
            client.refuse(id, misuse);
        }
    }

    private void carryOut(Connection client, Request request) throws Misuse {
        JsonObject body = request.body();
        switch (request.type()) {
            case HELLO -> hello(client, body);
            case CONTACTS -> contacts(client, request);
            case STATUS -> {
                client.busy = body.getBoolean("busy");
                publishPresence(client);
                client.ok(request.id());
            }
            case CREATE, JOIN -> join(client, request);
            case LEAVE -> submit(client, request, event("left", client, request));
            case INVITE -> invite(client, request);
            case CONTROL -> submit(client, request, event("rules", client, request)
                .put("control", body.getString("control")).put("invite", body.getString("invite")));
            case CHAT -> submit(client, request, message("chat", client, request)
                .put("text", body.getString("text")));
            case SYNC -> submit(client, request, message("sync", client, request)
                .put("key", body.getString("key")).put("value", body.getString("value")));
            case STREAM -> {
                session(client);
                client.streaming = body.getBoolean("on");
                client.ok(request.id());
            }
        }
    }

    private void hello(Connection client, JsonObject body) throws Misuse {
        if (body.getInteger("version") != Limits.VERSION) {
            throw new Misuse(Code.VERSION, "this server speaks version " + Limits.VERSION);
        }
        client.user = body.getString("user");
        Connection old = users.put(client.user, client);
        if (old != null) {
            old.end(Code.REPLACED, "the same user connected again");
            detach(old);
        }
        Presence.Entry known = presence.of(client.user);
        String session = known == null ? null : known.session();
        Replica replica = session == null ? null : sessions.all.get(session);
        publishPresence(client);
        JsonObject welcome = new JsonObject().put("type", "welcome").put("version", Limits.VERSION)
            .put("user", client.user).put("server", settings.name());
        if (replica != null && replica.state.members().containsKey(client.user)) {
            welcome.put("session", session);
        }
        client.send(welcome);
    }

    private void contacts(Connection client, Request request) {
        client.contacts.forEach(user -> unwatch(client, user));
        client.contacts.clear();
        client.contacts.addAll(request.users());
        client.ok(request.id());
        for (String user : client.contacts) {
            watchers.computeIfAbsent(user, one -> new HashSet<>()).add(client);
            client.send(presenceText(user, presence.of(user)));
        }
    }

    private void unwatch(Connection client, String user) {
        Set<Connection> watching = watchers.get(user);
        if (watching != null && watching.remove(client) && watching.isEmpty()) {
            watchers.remove(user);
        }
    }

    private static String presenceText(String user, Presence.Entry entry) {
        return new JsonObject().put("type", "presence").put("user", user)
            .put("status", entry == null ? "offline" : entry.status())
            .put("session", entry == null ? null : entry.session()).encode();
    }

    private void presenceChanged(String user, Presence.Entry entry) {
        Connection own = users.get(user);
        if (own != null && !entry.server().equals(id)) {
            users.remove(user);
            detach(own);
            own.end(Code.REPLACED, "the same user connected at another server");
        }
        Set<Connection> watching = watchers.get(user);
        if (watching != null) {
            String text = presenceText(user, entry);
            new ArrayList<>(watching).forEach(client -> client.send(text));
        }
    }

    private void join(Connection client, Request request) throws Misuse {
        String session = request.body().getString("session");
        if (client.session != null && !client.session.equals(session)) {
            throw new Misuse(Code.IN_SESSION, "you are in " + client.session + ": leave it first");
        }
        if (request.id().equals(client.answeredJoin)) {
            // Sent again before its answer arrived: that is on its way, and so is the client's removal if it
            // came after.
            return;
        }
        Replica replica = sessions.all.get(session);
        if (!admits && (replica == null || !replica.state.members().containsKey(client.user))) {
            throw new Misuse(Code.REFUSED, "this server takes no further members of sessions");
        }
        client.joining = session;
        client.joinId = request.id();
        client.joinAfter = request.body().getLong("after");
        boolean creates = request.type() == Request.Type.CREATE;
        JsonObject event = event(creates ? "created" : "joined", client, request).put("server", id);
        if (creates) {
            event.put("control", request.body().getString("control"))
                .put("invite", request.body().getString("invite"));
        }
        sessions.submit(session, event);
    }

    private void invite(Connection client, Request request) throws Misuse {
        String guest = request.body().getString("user");
        Presence.Entry entry = presence.of(guest);
        if (entry == null || !entry.status().equals("online")) {
            throw new Misuse(Code.NOT_AVAILABLE, guest + " is offline, busy or in a session");
        }
        submit(client, request, event("invited", client, request).put("guest", guest));
    }

    private static JsonObject event(String kind, Connection client, Request request) {
        return new JsonObject().put("kind", kind).put("user", client.user).put("id", request.id());
    }

    private static JsonObject message(String kind, Connection client, Request request) {
        client.sentNs.putIfAbsent(request.id(), System.nanoTime());
        if (client.sentNs.size() > 2 * Limits.REQUESTS_AT_ONCE) {
            client.sentNs.clear();
        }
        return event(kind, client, request).put("number", request.body().getLong("number"))
            .put("sent", request.body().getLong("sent"));
    }

    private void submit(Connection client, Request request, JsonObject event) throws Misuse {
        sessions.submit(session(client), event);
    }

    private static String session(Connection client) throws Misuse {
        if (client.session == null) {
            throw new Misuse(Code.NOT_IN_SESSION, "you are in no session");
        }
        return client.session;
    }

    // ---- what sessions bring

    private static String eventText(String session, JsonObject event) {
        JsonObject message = event.copy().put("type", "event").put("session", session);
        message.remove("server");
        return message.encode();
    }

    @Override
    public void applied(Replica session, JsonObject event) {
        String name = session.state.name;
        Set<Connection> here = members.get(name);
        if (here != null) {
            String text = eventText(name, event);
            new ArrayList<>(here).forEach(client -> client.send(text));
        }
        String kind = event.getString("kind");
        Connection client = users.get(event.getString("user"));
        if (kind.equals("invited")) {
            Connection guest = users.get(event.getString("guest"));
            if (guest != null) {
                guest.send(new JsonObject().put("type", "invitation").put("session", name)
                    .put("from", event.getString("user")));
            }
        }
        if (kind.equals("left") && client != null && name.equals(client.session)) {
            detach(client);
            publishPresence(client);
        }
        if (client != null) {
            answered(name, client.user, event.getString("id"), null);
        }
    }

    @Override
    public void answered(String session, String user, String id, Misuse refusal) {
        Connection client = users.get(user);
        if (client == null || id == null || id.isEmpty()) {
            return;
        }
        if (refusal != null) {
            client.sentNs.remove(id);
            if (id.equals(client.joinId)) {
                client.joining = null;
            }
            client.refuse(id, refusal);
            return;
        }
        Replica replica = sessions.all.get(session);
        if (session.equals(client.joining) && id.equals(client.joinId)) {
            if (replica != null && this.id.equals(replica.state.members().get(user))) {
                attach(client, replica);
            }
            return;
        }
        Long cameNs = client.sentNs.remove(id);
        if (cameNs != null) {
            counts.acks++;
            counts.messageLatency.add((System.nanoTime() - cameNs) / 1e6);
            client.send(new JsonObject().put("type", "ack").put("id", id)
                .put("order", replica == null ? null : replica.state.order()));
        } else {
            client.ok(id);
        }
    }

    @Override
    public void replaced(Replica session) {
        for (String user : session.state.members().keySet()) {
            Connection client = users.get(user);
            if (client != null && session.state.name.equals(client.joining)) {
                answered(session.state.name, user, client.joinId, null);
            }
        }
        Set<Connection> here = members.get(session.state.name);
        if (here != null) {
            new ArrayList<>(here).forEach(client -> client.send(state(session, client)));
        }
    }

    @Override
    public boolean present(String user, String session) {
        return presence.present(user, session);
    }

    @Override
    public long nowMs() {
        return System.currentTimeMillis();
    }

    @Override
    public void send(String to, JsonObject message) {
        group.send(to, message);
    }

    // ---- frames

    private void frame(Connection client, Buffer bytes) {
        now = System.currentTimeMillis();
        counts.receivedBytes += bytes.length();
        long cameNs = System.nanoTime();
        try {
            if (client.closed()) {
                return;
            }
            if (client.user.isEmpty()) {
                throw new Misuse(Code.HELLO_MISSING, "say hello first");
            }
            client.within(true, now);
            Frame frame = Frame.read(bytes);
            if (!client.streaming) {
                throw new Misuse(Code.NOT_STREAMING, "ask for stream first");
            }
            counts.framesIn++;
            Buffer named = new Frame(client.user, frame.number(), frame.stampUs(), frame.payload())
                .toBuffer();
            deliver(client.session, named, client, cameNs);
            Replica session = sessions.all.get(client.session);
            if (session != null) {
                for (String server : session.servers()) {
                    JsonObject other = others.get(server);
                    if (other != null && other.containsKey("frames")) {
                        crossings.send(other.getString("host"), other.getInteger("frames"), client.session,
                            named);
                    }
                }
            }
        } catch (Misuse misuse) {
            client.refuse(null, misuse);
        }
    }

    private void crossed(String session, Buffer frame) {
        deliver(session, frame, null, System.nanoTime());
    }

    private void deliver(String session, Buffer frame, Connection but, long cameNs) {
        Set<Connection> here = members.get(session);
        if (here != null) {
            for (Connection client : here.toArray(new Connection[0])) {
                if (client != but) {
                    client.frame(frame, cameNs, now);
                }
            }
        }
    }

    /**
     * Count the streams that leave this server now; other servers state their streaming clients in their
     * status.
     */
    private int outgoing() {
        List<Streams.Session> found = new ArrayList<>();
        members.forEach((name, here) -> {
            Replica session = sessions.all.get(name);
            Map<String, Integer> sit = new HashMap<>();
            if (session != null) {
                session.state.members().values().stream().filter(others::containsKey)
                    .forEach(server -> sit.merge(server, 1, Integer::sum));
            }
            sit.put(id, here.size());
            Map<String, Integer> stream = new HashMap<>();
            others.forEach((other, status) -> stream.put(other, status.getJsonObject("streaming",
                new JsonObject()).getInteger(name, 0)));
            stream.put(id, (int) here.stream().filter(client -> client.streaming).count());
            found.add(new Streams.Session(sit, stream));
        });
        return Streams.outgoing(id, found);
    }

    // ---- the group

    private void sendStatus() {
        JsonObject streaming = new JsonObject();
        members.forEach((name, here) -> {
            int count = (int) here.stream().filter(client -> client.streaming).count();
            if (count > 0) {
                streaming.put(name, count);
            }
        });
        int out = outgoing();
        JsonObject status = new JsonObject().put("t", "status").put("role", "server")
            .put("name", settings.name()).put("phase", phase.name()).put("host", settings.host())
            .put("port", settings.port()).put("frames", settings.framesPort()).put("clients", users.size())
            .put("outgoing", out).put("predicted", organizer.predicted(out, users.size()))
            .put("admits", phase == Phase.ACTIVE && admits).put("load", organizer.load(out))
            .put("streaming", streaming);
        if (phase == Phase.STANDBY) {
            // By unicast, behind the sessions' messages: the other servers must learn of the new homes first.
            others.keySet().forEach(other -> group.send(other, status.copy()));
        } else {
            group.multicast(status);
        }
    }

    @Override
    public void received(String from, JsonObject message) {
        now = System.currentTimeMillis();
        switch (message.getString("t")) {
            case "status" -> {
                JsonObject before = others.put(from, message);
                if (before == null) {
                    // To all, so that it stays in order with the changes, which are multicast too.
                    group.multicast(presence.own());
                    sendStatus();
                }
                if (before == null || !before.getString("phase").equals(message.getString("phase"))) {
                    holdersChanged();
                }
            }
            case "presence" -> presence.received(from, message.getJsonArray("users"));
            case "wake" -> wake(message.getDouble("boot", settings.bootS()));
            case "drain" -> drain();
            case "held-you" -> group.load(from).thenAccept(loaded -> {
                if (loaded) {
                    loadedFrom(from);
                }
            });
            default -> sessions.received(from, message);
        }
    }

    @Override
    public void members(List<String> ids, boolean merged) {
        others.keySet().retainAll(ids);
        if (loadingFrom != null) {
            loadingFrom.retainAll(ids);
        }
        holdersChanged();
        sendStatus();
        if (merged) {
            sessions.announceAll();
            group.multicast(presence.own());
        }
        if (phase == Phase.LOADING && loadingFrom != null && loadingFrom.isEmpty()) {
            activate();
        }
    }

    private void holdersChanged() {
        sessions.holders(inPhase(Phase.LOADING, Phase.ACTIVE, Phase.DRAINING), inPhase(Phase.ACTIVE));
    }

    private Set<String> inPhase(Phase... phases) {
        Set<String> found = new HashSet<>();
        others.forEach((other, status) -> {
            for (Phase one : phases) {
                if (one.name().equals(status.getString("phase"))) {
                    found.add(other);
                }
            }
        });
        return found;
    }

    private void wake(double bootS) {
        if (phase != Phase.STANDBY) {
            return;
        }
        phase = Phase.BOOTING;
        wokenS = System.nanoTime() / 1e9;
        sendStatus();
        bootTimer = vertx.setTimer(Math.max(1, (long) (bootS * 1e3)), timer -> {
            sessions.hold(true);
            phase = Phase.LOADING;
            loadingFrom = null;
            holdersChanged();
            sendStatus();
            load();
        });
    }

    /** Load the sessions of each server that holds some; repeat until each has answered or left. */
    private void load() {
        if (phase != Phase.LOADING) {
            return;
        }
        if (loadingFrom == null) {
            if (!group.allKnown()) {
                vertx.setTimer(20, timer -> load());
                return;
            }
            loadingFrom = inPhase(Phase.ACTIVE, Phase.DRAINING);
        }
        if (loadingFrom.isEmpty()) {
            activate();
            return;
        }
        loadingFrom.forEach(other -> group.send(other, new JsonObject().put("t", "hold-me")));
        vertx.setTimer(LOAD_AGAIN_MS, timer -> load());
    }

    private void loadedFrom(String from) {
        if (phase == Phase.LOADING && loadingFrom != null && loadingFrom.remove(from)
            && loadingFrom.isEmpty()) {
            activate();
        }
    }

    private void activate() {
        phase = Phase.ACTIVE;
        admits = true;
        holdersChanged();
        sendStatus();
        System.err.println(id + ": serves at http://" + settings.host() + ":" + settings.port());
    }

    @Override
    public JsonObject state() {
        return new JsonObject().put("sessions", sessions.homed());
    }

    @Override
    public void loaded(JsonObject state) {
        sessions.load(state.getJsonArray("sessions"));
    }

    private void drain() {
        if (phase == Phase.ACTIVE) {
            phase = Phase.DRAINING;
            sendStatus();
            new ArrayList<>(connections).forEach(this::move);
        } else if (phase != Phase.DRAINING) {
            vertx.cancelTimer(bootTimer);
            standBy();
        }
    }

    private void standBy() {
        phase = Phase.STANDBY;
        sessions.hold(false);
        if (!Double.isNaN(wokenS)) {
            servedS += System.nanoTime() / 1e9 - wokenS;
            wokenS = Double.NaN;
        }
        sendStatus();
        if (handedOver != null) {
            handedOver.complete(null);
        }
    }

    /** Ask a client to go to the server with the least predicted latency, and end its connection soon. */
    private void move(Connection client) {
        JsonObject message = new JsonObject().put("type", "move");
        Balancing.LATENCY.choose(servers(), new java.util.Random()).ifPresent(server -> {
            JsonObject other = others.get(server.id());
            message.put("url", "ws://" + other.getString("host") + ":" + other.getInteger("port")
                + "/v1/connect");
        });
        counts.handedOver++;
        client.send(message);
        vertx.setTimer(MOVE_WITHIN_MS, timer -> {
            if (client.ended(Counts.MOVED)) {
                client.socket.close((short) 1001, "moved");
            }
        });
    }

    private void tick() {
        now = System.currentTimeMillis();
        sessions.tick();
        presence.tick(now);
        for (Connection client : new ArrayList<>(connections)) {
            if ((now - client.sinceMs) / STATUS_MS != (now - TICK_MS - client.sinceMs) / STATUS_MS) {
                client.ping(now);
            }
        }
        if (phase == Phase.DRAINING && sessions.handHomes() && connections.isEmpty()) {
            standBy();
        }
    }

    // ---- the manager of this server

    private int clients() {
        return users.size();
    }

    private List<Balancing.Server> servers() {
        List<Balancing.Server> found = new ArrayList<>();
        others.forEach((other, status) -> {
            if ("server".equals(status.getString("role"))) {
                found.add(new Balancing.Server(other, status.getInteger("clients"),
                    status.getDouble("predicted"), status.getBoolean("admits")));
            }
        });
        return found;
    }

    private void decided(SelfOrganizing.Decision decision) {
        admits = decision.admit();
        predictedMs = decision.predictedMs();
        int left = decision.handOver();
        for (Connection client : new ArrayList<>(users.values())) {
            if (left-- <= 0) {
                break;
            }
            move(client);
        }
        sendStatus();
    }

    // ---- pages

    /** Tell whether this server is in the phase it was asked for: active, or on standby. */
    private boolean ready() {
        return phase == Phase.ACTIVE || phase == Phase.STANDBY;
    }

    private void page(HttpServerRequest request) {
        now = System.currentTimeMillis();
        String path = request.path();
        if (!request.method().name().equals("GET")) {
            answer(request, 405, new JsonObject().put("error", "only GET"));
        } else if (path.equals("/health")) {
            answer(request, ready() ? 200 : 503, new JsonObject().put("phase", phase.name())
                .put("server", id));
        } else if (path.equals("/metrics")) {
            request.response().putHeader("content-type", "text/plain; version=0.0.4").end(metrics());
        } else if (path.equals("/sessions")) {
            JsonArray found = new JsonArray();
            sessions.all.values().forEach(one -> found.add(summary(one)));
            answer(request, 200, new JsonObject().put("sessions", found));
        } else if (path.startsWith("/sessions/")) {
            Replica replica = sessions.all.get(path.substring("/sessions/".length()));
            answer(request, replica == null ? 404 : 200, replica == null ? new JsonObject()
                .put("error", "no-session") : summary(replica).put("digest", replica.state.digest()));
        } else if (path.startsWith("/presence/")) {
            String user = path.substring("/presence/".length());
            answer(request, 200, new JsonObject(presenceText(user, presence.of(user))));
        } else {
            answer(request, 404, new JsonObject().put("error", "there is no such page"));
        }
    }

    private static JsonObject summary(Replica one) {
        return new JsonObject().put("session", one.state.name).put("order", one.state.order())
            .put("home", one.home).put("members", one.state.members().size())
            .put("manager", one.state.manager());
    }

    private static void answer(HttpServerRequest request, int status, JsonObject body) {
        request.response().setStatusCode(status).putHeader("content-type", "application/json")
            .end(body.encode());
    }

    private String metrics() {
        StringBuilder page = new StringBuilder(8_192);
        counts.print(page);
        Collection<Replica> replicas = sessions.all.values();
        long streaming = users.values().stream().filter(client -> client.streaming).count();
        double served = servedS + (Double.isNaN(wokenS) ? 0 : System.nanoTime() / 1e9 - wokenS);
        Counts.gauge(page, "collaboration_clients", "Clients connected here", users.size());
        Counts.gauge(page, "collaboration_users", "Users online at any server", presence.count());
        Counts.gauge(page, "collaboration_sessions", "Sessions held here", replicas.size());
        Counts.gauge(page, "collaboration_homes", "Sessions whose home is here",
            replicas.stream().filter(one -> one.head != null).count());
        Counts.gauge(page, "collaboration_streams_incoming", "Streaming clients here", streaming);
        Counts.gauge(page, "collaboration_streams_outgoing", "Streams to clients and other servers",
            outgoing());
        Counts.gauge(page, "collaboration_predicted_latency_ms", "Latency with one more client, by the model",
            predictedMs);
        Counts.gauge(page, "collaboration_admits", "1: admits clients", phase == Phase.ACTIVE && admits ? 1
            : 0);
        Counts.gauge(page, "collaboration_served_seconds", "Time awake, in all", served);
        Counts.gauge(page, "collaboration_group_members", "Known members of the group", others.size() + 1);
        Counts.gauge(page, "collaboration_group_dropped", "Messages to the group that were dropped",
            group.dropped());
        Counts.gauge(page, "collaboration_group_refused", "Messages that did not open with the secret",
            group.refused());
        Counts.gauge(page, "process_cpu_seconds_total", "CPU used", Counts.cpuS());
        Runtime runtime = Runtime.getRuntime();
        Counts.gauge(page, "process_heap_bytes", "Heap in use", runtime.totalMemory() - runtime.freeMemory());
        return page.toString();
    }
}
