package collaboration.simulation;

import java.util.ArrayList;
import java.util.List;
import org.cloudsimplus.cloudlets.Cloudlet;
import org.cloudsimplus.cloudlets.CloudletSimple;
import org.cloudsimplus.utilizationmodels.UtilizationModelDynamic;
import org.cloudsimplus.vms.Vm;

/**
 * Model a session like CloudSimEx's web sessions: one cloudlet for each user and each stream, on one virtual
 * machine, for as long as the session lasts. A cloudlet here uses a share of its machine over time; it has no
 * length.
 */
final class WebSession {
    private static final long ENDLESS = Long.MAX_VALUE / 4;
    final double endS;
    private final List<Cloudlet> cloudlets = new ArrayList<>();
    private int server = -1;

    WebSession(Scenario scenario, double endS) {
        this.endS = endS;
        for (int i = 0; i < scenario.sessionSize(); i++) {
            cloudlets.add(using(scenario.cpuPerUser()));
        }
        for (int i = 0; i < scenario.streamsPerSession(); i++) {
            cloudlets.add(using(scenario.cpuPerStream() * (scenario.sessionSize() - 1)));
        }
    }

    private static Cloudlet using(double share) {
        Cloudlet cloudlet = new CloudletSimple(ENDLESS, 1);
        cloudlet.setUtilizationModelCpu(new UtilizationModelDynamic(share));
        cloudlet.setUtilizationModelRam(new UtilizationModelDynamic(RAM_SHARE));
        return cloudlet;
    }

    /** Of a machine's memory, for each user or stream. */
    private static final double RAM_SHARE = 0.002;

    int server() {
        return server;
    }

    /** Start on a server, or move there. */
    void sit(int number, Vm vm) {
        server = number;
        for (Cloudlet cloudlet : cloudlets) {
            cloudlet.setVm(vm);
            vm.getCloudletScheduler().cloudletSubmit(cloudlet);
        }
    }

    /** Leave the server. */
    void leave(Vm vm) {
        cloudlets.forEach(one -> vm.getCloudletScheduler().cloudletCancel(one));
        cloudlets.replaceAll(old -> {
            Cloudlet next = new CloudletSimple(ENDLESS, 1);
            next.setUtilizationModelCpu(old.getUtilizationModelCpu());
            next.setUtilizationModelRam(old.getUtilizationModelRam());
            return next;
        });
        server = -1;
    }
}
