package collaboration.simulation;

import ch.qos.logback.classic.Level;
import collaboration.managers.Balancing;
import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import java.util.Random;
import org.cloudsimplus.brokers.DatacenterBrokerSimple;
import org.cloudsimplus.cloudlets.CloudletExecution;
import org.cloudsimplus.core.CloudSimPlus;
import org.cloudsimplus.datacenters.DatacenterSimple;
import org.cloudsimplus.hosts.Host;
import org.cloudsimplus.hosts.HostSimple;
import org.cloudsimplus.resources.Pe;
import org.cloudsimplus.resources.PeSimple;
import org.cloudsimplus.schedulers.cloudlet.CloudletSchedulerTimeShared;
import org.cloudsimplus.util.Log;
import org.cloudsimplus.vms.Vm;
import org.cloudsimplus.vms.VmSimple;

/**
 * Simulate a scenario on CloudSim Plus: hosts, virtual machines and cloudlets are its own, and so is their
 * CPU. Our policies decide once a period, the latency comes from the scenario's law.
 */
public final class CloudSimulation {
    private static final int MIPS = 1_000;
    private static final long RAM_MB = 2_048;
    private static final int VMS_PER_HOST = 10;
    /** The balancer looks at this many servers, chosen at random, for each new session. */
    private static final int SAMPLE = 20;
    private final Scenario scenario;
    private final Random random;
    private final List<Vm> vms = new ArrayList<>();
    private final int[] sessionsOf;
    private final Fleet fleet;
    private final PriorityQueue<WebSession> sessions = new PriorityQueue<>((one, other) ->
        Double.compare(one.endS, other.endS));

    public CloudSimulation(Scenario scenario) {
        this.scenario = scenario;
        random = new Random(scenario.seed());
        fleet = new Fleet(scenario);
        sessionsOf = new int[scenario.mostServers()];
    }

    /** Run it; one row a period. */
    public List<Row> run() {
        Log.setLevel(Level.OFF);
        CloudSimPlus simulation = new CloudSimPlus();
        List<Host> hosts = new ArrayList<>();
        for (int i = 0; i < (scenario.mostServers() + VMS_PER_HOST - 1) / VMS_PER_HOST; i++) {
            List<Pe> cores = new ArrayList<>();
            for (int core = 0; core < VMS_PER_HOST; core++) {
                cores.add(new PeSimple(MIPS));
            }
            hosts.add(new HostSimple(VMS_PER_HOST * RAM_MB, 100_000, 1_000_000, cores));
        }
        new DatacenterSimple(simulation, hosts).setSchedulingInterval(scenario.periodS());
        DatacenterBrokerSimple broker = new DatacenterBrokerSimple(simulation);
        broker.setShutdownWhenIdle(false);
        for (int i = 0; i < scenario.mostServers(); i++) {
            Vm vm = new VmSimple(MIPS, 1).setRam(RAM_MB).setBw(1_000).setSize(1_000);
            vms.add(vm.setCloudletScheduler(new CloudletSchedulerTimeShared()));
        }
        broker.submitVmList(vms);
        simulation.terminateAt(scenario.endS() + scenario.periodS());
        simulation.startSync();
        simulation.runFor(1);
        List<Row> rows = new ArrayList<>();
        for (double timeS = 0; timeS < scenario.endS() - 1e-9; timeS += scenario.periodS()) {
            follow(timeS);
            double endS = timeS + scenario.periodS();
            simulation.runFor(endS - simulation.clock());
            // The datacenter does this only when a broker submits cloudlets, which costs an event each.
            hosts.forEach(host -> host.updateProcessing(endS));
            rows.add(observe(endS));
        }
        simulation.terminate();
        return rows;
    }

    /**
     * End the sessions that are over and, if there are still too many, those that end next; start the missing
     * ones.
     */
    private void follow(double timeS) {
        int wanted = (int) Math.round(scenario.users(timeS) / scenario.sessionSize());
        while (!sessions.isEmpty() && (sessions.peek().endS <= timeS || sessions.size() > wanted)) {
            end(sessions.poll());
        }
        while (sessions.size() < wanted) {
            WebSession session = new WebSession(scenario,
                timeS - Math.log(1 - random.nextDouble()) * scenario.sessionLifeS());
            place(session);
            sessions.add(session);
        }
    }

    private void end(WebSession session) {
        sessionsOf[session.server()]--;
        session.leave(vms.get(session.server()));
    }

    private void place(WebSession session) {
        List<Balancing.Server> seen = new ArrayList<>();
        List<Integer> active = fleet.active();
        for (int i = 0; i < Math.min(SAMPLE, active.size()); i++) {
            int server = active.size() <= SAMPLE ? active.get(i) : active.get(random.nextInt(active.size()));
            seen.add(new Balancing.Server(Integer.toString(server),
                sessionsOf[server] * scenario.sessionSize(), latencyMs(server), true));
        }
        int chosen = Integer.parseInt(Balancing.LATENCY.choose(seen, random).orElseThrow().id());
        sessionsOf[chosen]++;
        session.sit(chosen, vms.get(chosen));
    }

    private double latencyMs(int server) {
        double outgoing = (double) sessionsOf[server] * scenario.outgoingPerSession();
        return scenario.law().latencyMs(outgoing, (double) sessionsOf[server] * scenario.sessionSize());
    }

    private Row observe(double endS) {
        fleet.pass(endS);
        double cpu = 0;
        double load = 0;
        double latency = 0;
        double late = 0;
        double users = (double) sessions.size() * scenario.sessionSize();
        for (int server : fleet.active()) {
            double here = (double) sessionsOf[server] * scenario.sessionSize();
            cpu += cpu(vms.get(server));
            load += sessionsOf[server] * scenario.outgoingPerSession() / scenario.capacity();
            latency += here * latencyMs(server);
            late += latencyMs(server) > scenario.limitMs() ? here : 0;
        }
        int active = fleet.active().size();
        List<Integer> drained = fleet.decide(endS, load / active);
        if (!drained.isEmpty()) {
            handOver(drained);
        }
        return new Row(endS, (int) users, sessions.size(), sessions.size() * scenario.outgoingPerSession(),
            active, fleet.booting(), load / active, cpu / active, users > 0 ? latency / users : 0, users > 0
            ? late / users : 0, fleet.hours());
    }

    /** Return the work that CloudSim Plus has done for the cloudlets that run, in million instructions. */
    long worked() {
        return vms.stream().flatMap(vm -> vm.getCloudletScheduler().getCloudletExecList().stream())
            .mapToLong(one -> one.getCloudlet().getFinishedLengthSoFar()).sum();
    }

    /**
     * Add up what a machine's cloudlets use. The machine's own figure cannot serve: the time-shared scheduler
     * divides it by the number of cloudlets, however little each uses.
     */
    private static double cpu(Vm vm) {
        double used = 0;
        for (CloudletExecution one : vm.getCloudletScheduler().getCloudletExecList()) {
            used += one.getCloudlet().getUtilizationOfCpu();
        }
        return Math.min(1, used);
    }

    private void handOver(List<Integer> drained) {
        for (WebSession session : sessions) {
            if (drained.contains(session.server())) {
                end(session);
                place(session);
            }
        }
    }
}
