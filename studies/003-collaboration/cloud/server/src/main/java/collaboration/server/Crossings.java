package collaboration.server;

import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.datagram.DatagramPacket;
import io.vertx.core.datagram.DatagramSocket;
import io.vertx.core.datagram.DatagramSocketOptions;
import java.nio.charset.StandardCharsets;

/**
 * Carry frames between servers as sealed datagrams: without order, without retransmission, and beside the
 * group's own connections. A datagram is the session's name (length, bytes), then the frame with its sender's
 * name.
 */
final class Crossings {
    /** Take a frame that another server sent. */
    interface Receiver {
        void crossed(String session, Buffer frame);
    }

    /** Datagrams that may wait for the kernel; further ones are dropped. */
    private static final int WAITING = 2_000;
    private final DatagramSocket socket;
    private final Seal seal;
    private final Counts counts;
    private int waiting;

    Crossings(Vertx vertx, Seal seal, Counts counts) {
        this.seal = seal;
        this.counts = counts;
        socket = vertx.createDatagramSocket(new DatagramSocketOptions().setReceiveBufferSize(1 << 20)
            .setSendBufferSize(1 << 20));
    }

    Future<DatagramSocket> listen(String host, int port, Receiver receiver) {
        return socket.handler(packet -> opened(packet, receiver)).listen(port, host);
    }

    void send(String host, int port, String session, Buffer frame) {
        if (waiting >= WAITING) {
            counts.framesDropped++;
            return;
        }
        byte[] name = session.getBytes(StandardCharsets.UTF_8);
        byte[] plain = Buffer.buffer(1 + name.length + frame.length()).appendByte((byte) name.length)
            .appendBytes(name).appendBuffer(frame).getBytes();
        byte[] sealed = seal.seal(plain, 0, plain.length);
        waiting++;
        counts.crossingsOut++;
        counts.sentBytes += sealed.length;
        socket.send(Buffer.buffer(sealed), port, host).onComplete(done -> waiting--);
    }

    private void opened(DatagramPacket packet, Receiver receiver) {
        byte[] sealed = packet.data().getBytes();
        byte[] plain = seal.open(sealed, 0, sealed.length);
        if (plain == null || plain.length < 2 || plain.length < 1 + (plain[0] & 0xff)) {
            counts.crossingsRefused++;
            return;
        }
        int length = plain[0] & 0xff;
        counts.crossingsIn++;
        counts.receivedBytes += sealed.length;
        receiver.crossed(new String(plain, 1, length, StandardCharsets.UTF_8),
            Buffer.buffer(plain).slice(1 + length, plain.length));
    }

    Future<Void> close() {
        return socket.close();
    }
}
