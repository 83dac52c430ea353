package collaboration.server;

import io.vertx.core.json.JsonObject;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.jgroups.Address;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.MergeView;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.protocols.FD_ALL3;
import org.jgroups.protocols.FD_SOCK2;
import org.jgroups.protocols.FRAG4;
import org.jgroups.protocols.MERGE3;
import org.jgroups.protocols.MFC;
import org.jgroups.protocols.TCP;
import org.jgroups.protocols.TCPPING;
import org.jgroups.protocols.UFC;
import org.jgroups.protocols.UNICAST3;
import org.jgroups.protocols.VERIFY_SUSPECT2;
import org.jgroups.protocols.pbcast.GMS;
import org.jgroups.protocols.pbcast.NAKACK2;
import org.jgroups.protocols.pbcast.STABLE;
import org.jgroups.protocols.pbcast.STATE_TRANSFER;

/**
 * Join the servers' group by JGroups and exchange JSON messages in it. The listener is called on the given
 * executor, with the messages of one sender in their order; sending never blocks the caller.
 */
public final class Group implements Receiver, AutoCloseable {
    /** Receive messages and membership; called on the executor only. */
    public interface Listener {
        void received(String from, JsonObject message);

        /** Receive the members of the group that are known by name, in the group's order. */
        void members(List<String> ids, boolean merged);

        /** Return the state for a server that loads from this one. */
        default JsonObject state() {
            return new JsonObject();
        }

        /** Receive the state of another server. */
        default void loaded(JsonObject state) {
        }
    }

    private static final Logger LOG = Logger.getLogger("org.jgroups");
    private static final int WAITING = 20_000;
    private static final long FLUSH_MS = 1_000;
    /** The answer to leaving may be lost with the connection that the others close at once. */
    private static final long LEAVE_WITHIN_MS = 300;
    private static final long STATE_WITHIN_MS = 3_000;
    public final String id;
    private final Executor loop;
    private final Listener listener;
    private final JChannel channel;
    private final SealProtocol seal;
    private final BlockingQueue<Message> waiting = new ArrayBlockingQueue<>(WAITING);
    private final AtomicLong dropped = new AtomicLong();
    private final Thread sender;
    /** Both are used on the executor only. */
    private final Map<Address, String> names = new HashMap<>();
    private List<Address> members = List.of();
    private volatile boolean closed;

    public Group(String id, InetSocketAddress at, Collection<InetSocketAddress> peers, Seal seal,
                 Executor loop, Listener listener) throws Exception {
        this.id = id;
        this.loop = loop;
        this.listener = listener;
        this.seal = new SealProtocol(seal);
        LOG.setLevel(Level.SEVERE);
        InetAddress address = at.getAddress();
        TCP tcp = new TCP();
        tcp.setBindAddress(address).setBindPort(at.getPort()).setPortRange(0);
        // The usual bundler, one per destination, can spin on a core for good once a member has left.
        tcp.setBundlerType("transfer-queue");
        TCPPING ping = new TCPPING();
        ping.setPortRange(0);
        ping.setInitialHosts(peers);
        channel = new JChannel(tcp, this.seal, ping, new MERGE3().setMinInterval(2_000).setMaxInterval(5_000),
            new FD_SOCK2().setBindAddress(address), new FD_ALL3().setTimeout(5_000).setInterval(1_000),
            new VERIFY_SUSPECT2().setTimeout(200), new NAKACK2().useMcastXmit(false), new UNICAST3(),
            new STABLE(), new GMS().printLocalAddress(false).setJoinTimeout(500).setMaxJoinAttempts(4)
                .setViewAckCollectionTimeout(500).setLeaveTimeout(LEAVE_WITHIN_MS),
            new UFC(), new MFC(), new FRAG4(), new STATE_TRANSFER());
        // It would answer anyone's probes at all addresses of the machine.
        tcp.getDiagnosticsHandler().setEnabled(false);
        channel.setName(id);
        channel.setDiscardOwnMessages(true);
        channel.setReceiver(this);
        sender = new Thread(this::sendAll, "group-sender");
        sender.setDaemon(true);
    }

    /** Join; returns once the first view is installed. */
    public void join() throws Exception {
        sender.start();
        channel.connect("collaboration");
    }

    /** Send to one member, on the executor only; false: it is unknown, or the queue is full. */
    public boolean send(String to, JsonObject message) {
        for (Map.Entry<Address, String> one : names.entrySet()) {
            if (one.getValue().equals(to) && members.contains(one.getKey())) {
                return offer(one.getKey(), message);
            }
        }
        return false;
    }

    /** Send to all other members. */
    public boolean multicast(JsonObject message) {
        return offer(null, message);
    }

    private boolean offer(Address to, JsonObject message) {
        byte[] bytes = message.put("from", id).encode().getBytes(StandardCharsets.UTF_8);
        boolean taken = waiting.offer(new BytesMessage(to, bytes));
        if (!taken) {
            dropped.incrementAndGet();
        }
        return taken;
    }

    private void sendAll() {
        while (!closed) {
            try {
                Message next = waiting.poll(200, TimeUnit.MILLISECONDS);
                if (next != null) {
                    channel.send(next);
                }
            } catch (InterruptedException e) {
                return;
            } catch (Exception e) {
                dropped.incrementAndGet();
            }
        }
    }

    /** Tell whether every member of the group is known by name; on the executor only. */
    public boolean allKnown() {
        return !members.isEmpty() && names.keySet().containsAll(members);
    }

    /** Count messages to the group that were dropped here. */
    public long dropped() {
        return dropped.get();
    }

    /** Count messages that did not open with the group's secret. */
    public long refused() {
        return seal.refused();
    }

    /**
     * Load the state of another server and hand it to the listener. Completes with whether it arrived in
     * time.
     */
    public CompletableFuture<Boolean> load(String from) {
        Address address = names.entrySet().stream().filter(one -> one.getValue().equals(from))
            .map(Map.Entry::getKey).findFirst().orElse(null);
        CompletableFuture<Boolean> done = new CompletableFuture<>();
        Thread loader = new Thread(() -> {
            boolean loaded = false;
            try {
                if (address != null) {
                    channel.getState(address, STATE_WITHIN_MS);
                    loaded = true;
                }
            } catch (Exception e) {
                System.err.println(id + ": no state arrived from " + from + ": " + e.getMessage());
            }
            boolean arrived = loaded;
            loop.execute(() -> done.complete(arrived));
        }, "group-loader");
        loader.setDaemon(true);
        loader.start();
        return done;
    }

    @Override
    public void receive(Message message) {
        JsonObject json = new JsonObject(new String(message.getArray(), message.getOffset(),
            message.getLength(), StandardCharsets.UTF_8));
        Address source = message.getSrc();
        loop.execute(() -> {
            String from = json.getString("from");
            if (!from.equals(names.put(source, from)) && members.contains(source)) {
                notifyMembers(false);
            }
            listener.received(from, json);
        });
    }

    @Override
    public void viewAccepted(View view) {
        List<Address> now = view.getMembers();
        boolean merged = view instanceof MergeView;
        loop.execute(() -> {
            members = now;
            names.put(channel.address(), id);
            names.keySet().retainAll(now);
            notifyMembers(merged);
        });
    }

    private void notifyMembers(boolean merged) {
        List<String> ids = new ArrayList<>();
        for (Address member : members) {
            if (names.containsKey(member)) {
                ids.add(names.get(member));
            }
        }
        listener.members(ids, merged);
    }

    @Override
    public void getState(OutputStream output) throws Exception {
        CompletableFuture<JsonObject> state = new CompletableFuture<>();
        loop.execute(() -> state.complete(listener.state()));
        output.write(state.get(STATE_WITHIN_MS, TimeUnit.MILLISECONDS).encode()
            .getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void setState(InputStream input) throws Exception {
        JsonObject state = new JsonObject(new String(input.readAllBytes(), StandardCharsets.UTF_8));
        loop.execute(() -> listener.loaded(state));
    }

    /** Send what waits, then leave; bounded in time. */
    @Override
    public void close() {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(FLUSH_MS);
        while (!waiting.isEmpty() && System.nanoTime() < until) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
        closed = true;
        channel.close();
    }
}
