package collaboration.server;

import java.util.concurrent.atomic.AtomicLong;
import org.jgroups.BytesMessage;
import org.jgroups.Message;
import org.jgroups.stack.Protocol;
import org.jgroups.util.ByteArray;
import org.jgroups.util.MessageBatch;
import org.jgroups.util.Util;

/**
 * Seal every message of the group whole, headers included, just above the transport: joins, views, heartbeats
 * and suspicions too. What does not open with the group's secret is dropped and counted.
 */
public final class SealProtocol extends Protocol {
    private final Seal seal;
    private final AtomicLong refused = new AtomicLong();

    public SealProtocol(Seal seal) {
        this.seal = seal;
    }

    /** Count messages that were not the group's. */
    public long refused() {
        return refused.get();
    }

    @Override
    public Object down(Message message) {
        try {
            ByteArray plain = Util.messageToBuffer(message);
            byte[] sealed = seal.seal(plain.getArray(), plain.getOffset(), plain.getLength());
            Message outer = new BytesMessage(message.getDest(), sealed).setSrc(message.getSrc());
            outer.setFlag(message.getFlags(false), false).setFlag(message.getFlags(true), true);
            return down_prot.down(outer);
        } catch (Exception e) {
            throw new IllegalStateException("a message could not be sealed", e);
        }
    }

    @Override
    public Object up(Message message) {
        Message inner = opened(message);
        return inner == null ? null : up_prot.up(inner);
    }

    @Override
    public void up(MessageBatch batch) {
        MessageBatch inner = new MessageBatch(batch.dest(), batch.sender(), batch.clusterName(),
            batch.multicast(), batch.mode(), Math.max(1, batch.size()));
        for (Message message : batch) {
            Message one = opened(message);
            if (one != null) {
                inner.add(one);
            }
        }
        if (!inner.isEmpty()) {
            up_prot.up(inner);
        }
    }

    private Message opened(Message message) {
        byte[] plain = message.hasArray()
            ? seal.open(message.getArray(), message.getOffset(), message.getLength()) : null;
        if (plain == null) {
            refused.incrementAndGet();
            return null;
        }
        try {
            Message inner = Util.messageFromBuffer(plain, 0, plain.length);
            if (inner.getDest() == null && message.getDest() != null) {
                inner.setDest(message.getDest());
            }
            return inner.getSrc() == null ? inner.setSrc(message.getSrc()) : inner;
        } catch (Exception e) {
            refused.incrementAndGet();
            return null;
        }
    }
}
