package collaboration.server;

import collaboration.protocol.Misuse;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** Hold a server's counters; used on its event loop only. */
final class Counts {
    /** Ends of a connection other than by a protocol error; `LEFT`: the client closed it, or it broke. */
    static final String HALF_OPEN = "half-open";
    static final String MOVED = "moved";
    static final String LEFT = "left";
    long receivedBytes;
    long sentBytes;
    long framesIn;
    long framesOut;
    long framesDropped;
    long crossingsOut;
    long crossingsIn;
    long crossingsRefused;
    long requests;
    long refusals;
    long events;
    long acks;
    long handedOver;
    long takeovers;
    /** Cause → connections that ended for it. */
    private final Map<String, Long> ends = new LinkedHashMap<>();
    final Histogram frameLatency = new Histogram();
    final Histogram roundTrip = new Histogram();
    final Histogram messageLatency = new Histogram();

    Counts() {
        for (Misuse.Code code : Misuse.Code.values()) {
            if (code.close != 0) {
                ends.put(code.word, 0L);
            }
        }
        for (String cause : new String[] {HALF_OPEN, MOVED, LEFT}) {
            ends.put(cause, 0L);
        }
    }

    void ended(String cause) {
        ends.merge(cause, 1L, Long::sum);
    }

    /** Return the CPU that this process has used, in seconds. */
    static double cpuS() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime() / 1e9;
    }

    void print(StringBuilder page) {
        counter(page, "received_bytes_total",
            "Bytes of messages and frames received from clients and servers", receivedBytes);
        counter(page, "sent_bytes_total", "Bytes of messages and frames sent to clients and servers",
            sentBytes);
        counter(page, "frames_received_total", "Frames received from clients", framesIn);
        counter(page, "frames_sent_total", "Frames sent to clients", framesOut);
        counter(page, "frames_dropped_total", "Frames not sent to a client that reads too slowly",
            framesDropped);
        counter(page, "crossings_sent_total", "Frames sent to other servers", crossingsOut);
        counter(page, "crossings_received_total", "Frames received from other servers", crossingsIn);
        counter(page, "crossings_refused_total", "Datagrams that did not open with the group's secret",
            crossingsRefused);
        counter(page, "requests_total", "Requests of clients", requests);
        counter(page, "refusals_total", "Requests and frames answered with an error", refusals);
        counter(page, "events_total", "Events of sessions applied", events);
        counter(page, "acknowledgements_total", "Messages acknowledged", acks);
        counter(page, "handed_over_total", "Clients asked to move to another server", handedOver);
        counter(page, "takeovers_total", "Sessions whose home this server became after another's death",
            takeovers);
        page.append("# HELP collaboration_connections_ended_total Connections that ended, by cause\n")
            .append("# TYPE collaboration_connections_ended_total counter\n");
        ends.forEach((cause, count) -> page.append("collaboration_connections_ended_total{cause=\"")
            .append(cause).append("\"} ").append(count).append('\n'));
        frameLatency.print(page, "collaboration_frame_latency_seconds",
            "From a frame's arrival until the kernel has it");
        roundTrip.print(page, "collaboration_round_trip_seconds",
            "From a ping behind a client's frames to its answer");
        messageLatency.print(page, "collaboration_message_latency_seconds",
            "From a message's arrival to its acknowledgement");
    }

    private static void counter(StringBuilder page, String name, String help, long value) {
        page.append(String.format(Locale.ROOT, "# HELP collaboration_%s %s%n# TYPE collaboration_%s counter%n"
            + "collaboration_%s %d%n", name, help, name, name, value));
    }

    static void gauge(StringBuilder page, String name, String help, double value) {
        page.append(String.format(Locale.ROOT, "# HELP %s %s%n# TYPE %s gauge%n%s %s%n", name, help, name,
            name, value));
    }
}
