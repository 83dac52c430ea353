package collaboration.server;

import collaboration.protocol.Limits;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;

/**
 * Read the heads of a client's WebSocket frames ahead of the decoder, and drop a message that is too large
 * byte by byte: the decoder would cut the connection before the client learns why. One for each connection,
 * used on its event loop.
 */
final class SizeGuard extends ChannelInboundHandlerAdapter {
    /** After this many dropped bytes the connection is cut. */
    private static final long DROPPED_BYTES = 64L << 20;
    private static final int MASK_BYTES = 4;
    private static final int CONTROL = 0x8;
    private final Runnable tooLarge;
    /** The start of a head whose rest has not arrived. */
    private ByteBuf started;
    private long messageBytes;
    private long frameLeft;
    private boolean dropping;
    private long dropped;

    SizeGuard(Runnable tooLarge) {
        this.tooLarge = tooLarge;
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        ByteBuf bytes = (ByteBuf) message;
        if (started != null) {
            ByteBuf both = context.alloc().buffer(started.readableBytes() + bytes.readableBytes());
            both.writeBytes(started).writeBytes(bytes);
            started.release();
            started = null;
            bytes.release();
            bytes = both;
        }
        try {
            while (bytes.isReadable()) {
                if (frameLeft == 0 && !head(bytes)) {
                    started = context.alloc().buffer(bytes.readableBytes()).writeBytes(bytes);
                    return;
                }
                int part = (int) Math.min(frameLeft, bytes.readableBytes());
                frameLeft -= part;
                if (!dropping) {
                    context.fireChannelRead(bytes.readRetainedSlice(part));
                    continue;
                }
                bytes.skipBytes(part);
                dropped += part;
                if (dropped > DROPPED_BYTES) {
                    context.close();
                    return;
                }
            }
        } finally {
            bytes.release();
        }
    }

    /** Start the next frame; its head counts among its bytes. False: the head is incomplete. */
    private boolean head(ByteBuf bytes) {
        int at = bytes.readerIndex();
        if (bytes.readableBytes() < 2) {
            return false;
        }
        int first = bytes.getUnsignedByte(at);
        int second = bytes.getUnsignedByte(at + 1);
        int lengthBytes = (second & 0x7f) == 127 ? 8 : (second & 0x7f) == 126 ? 2 : 0;
        if (bytes.readableBytes() < 2 + lengthBytes) {
            return false;
        }
        long length = lengthBytes == 8 ? bytes.getLong(at + 2) & Long.MAX_VALUE >> 1
            : lengthBytes == 2 ? bytes.getUnsignedShort(at + 2) : second & 0x7f;
        int opcode = first & 0xf;
        boolean control = (opcode & CONTROL) != 0;
        if (!control) {
            messageBytes = opcode == 0 ? messageBytes + length : length;
        }
        boolean large = messageBytes > Limits.MESSAGE_BYTES && !control || length > Limits.MESSAGE_BYTES;
        frameLeft = 2 + lengthBytes + ((second & 0x80) != 0 ? MASK_BYTES : 0) + length;
        dropping = large;
        if (large && dropped == 0) {
            tooLarge.run();
        }
        return true;
    }

    @Override
    public void handlerRemoved(ChannelHandlerContext context) {
        if (started != null) {
            started.release();
            started = null;
        }
    }
}
