package collaboration.server;

import collaboration.managers.Balancing;
import collaboration.managers.SelfOrganizing;
import collaboration.managers.SelfOrganizing.Decision;
import collaboration.managers.SelfOrganizing.Measured;
import io.vertx.core.Context;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import java.util.function.Supplier;

/**
 * Manage one server: a thread that measures every period and decides by the policy; the event loop carries
 * the decision out.
 */
final class SelfOrganizer extends Thread {
    private final CloudServer.Settings settings;
    private final Context loop;
    private final Counts counts;
    private final IntSupplier outgoing;
    private final IntSupplier clients;
    private final Supplier<List<Balancing.Server>> servers;
    private final Consumer<Decision> decided;
    private final double capacity;
    private long received;
    private long sent;
    private double cpuS = Counts.cpuS();
    private long atNs = System.nanoTime();

    SelfOrganizer(CloudServer.Settings settings, Context loop, Counts counts, IntSupplier outgoing,
                  IntSupplier clients, Supplier<List<Balancing.Server>> servers, Consumer<Decision> decided) {
        super("self-organizing");
        setDaemon(true);
        this.settings = settings;
        this.loop = loop;
        this.counts = counts;
        this.outgoing = outgoing;
        this.clients = clients;
        this.servers = servers;
        this.decided = decided;
        capacity = settings.model().capacity(settings.limits().latencyMs(), 1);
    }

    /** Return the share of a server's capacity that is used, by the model. */
    double load(int streams) {
        return streams / Math.max(1, capacity);
    }

    double predicted(int streams, int users) {
        return settings.model().latencyMs(streams, users);
    }

    @Override
    public void run() {
        while (!isInterrupted()) {
            try {
                TimeUnit.MILLISECONDS.sleep((long) (settings.periodS() * 1e3));
                CompletableFuture<Measured> measured = new CompletableFuture<>();
                CompletableFuture<List<Balancing.Server>> others = new CompletableFuture<>();
                loop.runOnContext(ignored -> {
                    measured.complete(measure());
                    others.complete(servers.get());
                });
                Decision decision = SelfOrganizing.decide(measured.get(), settings.limits(), settings.model(),
                    others.get());
                loop.runOnContext(ignored -> decided.accept(decision));
            } catch (InterruptedException e) {
                return;
            } catch (Exception e) {
                System.err.println(settings.name() + ": the self-organizing manager missed a period: " + e);
            }
        }
    }

    private Measured measure() {
        double seconds = (System.nanoTime() - atNs) / 1e9;
        double usedS = Counts.cpuS() - cpuS;
        Measured found = new Measured(clients.getAsInt(), outgoing.getAsInt(),
            counts.roundTrip.medianSinceMs(), usedS / seconds / settings.cpus(),
            (counts.receivedBytes - received) / seconds, (counts.sentBytes - sent) / seconds);
        received = counts.receivedBytes;
        sent = counts.sentBytes;
        cpuS += usedS;
        atNs = System.nanoTime();
        return found;
    }
}
