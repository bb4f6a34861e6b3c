/* Packets: sent by tasks, received in the timer interrupt. Their sum does not depend on the order of arrival. */
#include "lock.h"
#include "tiny.h"

enum { BACKLOG = 24 };
enum { F_DATA, F_SYN, F_ACK, F_PUSH, F_URGENT, F_WINDOW, F_RESET, F_FIN };

static struct spinlock net_lock;
static struct sk_buff buffers[BACKLOG];
static struct sk_buff *free_buffers, *backlog;
static int buffers_made, outstanding;
static struct wait_queue buffer_freed;

static struct {
	u64 bytes, opened, closed, sum;
} connection;

static noinline struct sk_buff *alloc_skb(void)
{
	unsigned long flags = spin_lock_irqsave(&net_lock);
	struct sk_buff *skb = free_buffers;

	if (skb)
		free_buffers = skb->next;
	else if (buffers_made < BACKLOG)
		skb = &buffers[buffers_made++];
	if (skb)
		outstanding++;
	spin_unlock_irqrestore(&net_lock, flags);
	return skb;
}

static noinline void kfree_skb(struct sk_buff *skb)
{
	unsigned long flags = spin_lock_irqsave(&net_lock);

	skb->next = free_buffers;
	free_buffers = skb;
	outstanding--;
	spin_unlock_irqrestore(&net_lock, flags);
	wake_up(&buffer_freed);
}

noinline int dev_queue_xmit(struct sk_buff *skb)
{
	unsigned long flags = spin_lock_irqsave(&net_lock);

	skb->next = backlog;
	backlog = skb;
	spin_unlock_irqrestore(&net_lock, flags);
	return 0;
}

static noinline u32 csum_partial(const u8 *data, u32 len)
{
	u32 sum = 0;

	for (; len > 1; len -= 2, data += 2)
		sum += data[0] | data[1] << 8;
	if (len)
		sum += *data;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static noinline u32 tcp_urgent(struct sk_buff *skb) { return csum_partial(skb->data, skb->len) << 3; }

/* The value of a segment. A dense switch, so that the compiler makes a jump table. */
static noinline u32 tcp_rcv_state_process(struct sk_buff *skb)
{
	switch (skb->flags) {
	case F_DATA:
		return csum_partial(skb->data, skb->len);
	case F_SYN:
		connection.opened++;
		return skb->seq ^ 0x5a5a;
	case F_ACK:
		return skb->seq * 3;
	case F_PUSH:
		connection.bytes += skb->len;
		return skb->len << 4;
	case F_URGENT:
		return tcp_urgent(skb);
	case F_WINDOW:
		return skb->seq >> 1 | 0x8000;
	case F_RESET:
		return ~skb->seq & 0xffff;
	case F_FIN:
		connection.closed++;
		return skb->seq + 0x1111;
	}
	return 0;
}

/* Runs in the timer interrupt of any CPU. */
noinline int tcp_v4_rcv(struct sk_buff *skb)
{
	unsigned long flags;

	if (!skb->len)
		return -EINVAL;
	flags = spin_lock_irqsave(&net_lock);
	connection.sum += mix(skb->seq, tcp_rcv_state_process(skb));
	spin_unlock_irqrestore(&net_lock, flags);
	return 0;
}

static noinline int ip_rcv(struct sk_buff *skb) { return tcp_v4_rcv(skb); }

void net_rx_action(void)
{
	unsigned long flags = spin_lock_irqsave(&net_lock);
	struct sk_buff *skb = backlog, *next;

	backlog = NULL;
	spin_unlock_irqrestore(&net_lock, flags);
	for (; skb; skb = next) {
		next = skb->next;
		ip_rcv(skb);
		kfree_skb(skb);
	}
}

noinline long sys_sendto(u32 seq, const void __user *data, usize len)
{
	struct sk_buff *skb;

	if (len > sizeof(skb->data))
		return -EINVAL;
	wait_event(&buffer_freed, (skb = alloc_skb()));
	if (copy_from_user(skb->data, data, len)) {
		kfree_skb(skb);
		return -EFAULT;
	}
	skb->seq = seq;
	skb->len = len;
	skb->flags = seq & 7;
	return dev_queue_xmit(skb);
}

/* Waits until all packets have arrived; their sum is the result. */
noinline void net_drain(void)
{
	wait_event(&buffer_freed, !*(volatile int *)&outstanding);
	report(R_NET, connection.sum + (connection.opened << 8) + (connection.closed << 16) + connection.bytes);
}
