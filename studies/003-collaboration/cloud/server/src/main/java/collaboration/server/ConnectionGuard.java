package collaboration.server;

import collaboration.protocol.Limits;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.FixedRecvByteBufAllocator;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.flush.FlushConsolidationHandler;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.impl.HttpServerConnection;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Watch over each connection of an HTTP server: end one on which no whole request arrives in time, and share
 * the event loop fairly between them, so that a request for a page is answered beside any number of streams.
 */
public final class ConnectionGuard extends ChannelInboundHandlerAdapter {
    /** Bytes read from one connection before it is the others' turn. */
    private static final int TURN_BYTES = 4_096;
    /** Writes of one turn to one connection that are handed to the kernel together. */
    private static final int WRITES_TOGETHER = 64;
    private static final byte[] LATE =
        "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        .getBytes(StandardCharsets.US_ASCII);
    private final Runnable halfOpen;
    private Future<?> late;

    private ConnectionGuard(Runnable halfOpen) {
        this.halfOpen = halfOpen;
    }

    /**
     * Guard all connections of a server; the task runs, on their event loop, for each that stays half open.
     */
    public static void guard(HttpServer server, Runnable halfOpen) {
        server.connectionHandler(connection -> {
            ChannelHandlerContext last = ((HttpServerConnection) connection).channelHandlerContext();
            Channel channel = last.channel();
            channel.config().setRecvByteBufAllocator(new FixedRecvByteBufAllocator(TURN_BYTES)
                .maxMessagesPerRead(1));
            channel.pipeline().addFirst(new FlushConsolidationHandler(WRITES_TOGETHER, true));
            channel.pipeline().addBefore(last.name(), "half-open", new ConnectionGuard(halfOpen));
        });
    }

    @Override
    public void handlerAdded(ChannelHandlerContext context) {
        late = context.executor().schedule(() -> {
            halfOpen.run();
            // From the first handler on, past the HTTP encoder: these bytes are an answer already.
            context.pipeline().firstContext().writeAndFlush(Unpooled.wrappedBuffer(LATE))
                .addListener(ChannelFutureListener.CLOSE);
        }, Limits.REQUEST_WITHIN_MS, TimeUnit.MILLISECONDS);
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        if (message instanceof HttpRequest) {
            context.pipeline().remove(this);
        }
        context.fireChannelRead(message);
    }

    @Override
    public void handlerRemoved(ChannelHandlerContext context) {
        late.cancel(false);
    }
}
