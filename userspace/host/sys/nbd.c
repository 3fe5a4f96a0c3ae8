// SPDX-License-Identifier: GPL-2.0
/* Connect the kernel's driver nbd to a server; see nbd.h. */
#include <endian.h>
#include <errno.h>
#include <glob.h>
#include <linux/genetlink.h>
#include <linux/nbd-netlink.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "nbd.h"
#include "run.h"
#include "socket.h"
#include "sysfs.h"

/* As dm-revdedup has, so that a table of partitions reads the same. */
#define BLOCK_SIZE	512

#define GONE_TRIES	100
#define GONE_US		20000

/* --- the server: the "newstyle" handshake, up to the point where the kernel goes on */

#define NBD_OPT_GO		7
#define NBD_REP_ACK		1
#define NBD_REP_INFO		3
#define NBD_INFO_EXPORT		0
#define NBD_OPTION_MAGIC	0x49484156454f5054ULL	/* IHAVEOPT */
#define NBD_REPLY_MAGIC		0x0003e889045565a9ULL

struct hello {
	char magic[8];
	uint64_t option_magic;
	uint16_t flags;
} __attribute__((packed));

struct go {
	uint32_t client_flags;
	uint64_t magic;
	uint32_t option;
	uint32_t len;
	uint32_t name_len;
	char name[RD_NBD_OWNER + 2];	/* and the number of what more is asked: none */
} __attribute__((packed));

struct answer {
	uint64_t magic;
	uint32_t option;
	uint32_t type;
	uint32_t len;
} __attribute__((packed));

struct info {
	uint16_t type;
	uint64_t size;
	uint16_t flags;
} __attribute__((packed));

static int receive(int fd, void *data, size_t len)
{
	ssize_t got = recv(fd, data, len, MSG_WAITALL);

	return got == (ssize_t)len ? 0 : got < 0 ? -errno : -ECONNRESET;
}

static int ask_to_go(int fd, const char *name)
{
	size_t len = strlen(name);
	struct go go = {
		.client_flags = htobe32(1 | 2),	/* newstyle, without the zeros */
		.magic = htobe64(NBD_OPTION_MAGIC),
		.option = htobe32(NBD_OPT_GO),
		.len = htobe32(4 + len + 2),
		.name_len = htobe32(len),
	};
	size_t bytes = offsetof(struct go, name) + len + 2;
	struct hello hello;
	int r;

	if (len >= RD_NBD_OWNER)
		return -ENAMETOOLONG;
	memcpy(go.name, name, len);
	r = receive(fd, &hello, sizeof(hello));
	if (!r && (memcmp(hello.magic, "NBDMAGIC", 8) ||
		   be64toh(hello.option_magic) != NBD_OPTION_MAGIC))
		r = -EPROTO;
	if (!r && send(fd, &go, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		r = -ECONNRESET;
	return r;
}

/* Read one answer. 1: the server has agreed. */
static int read_answer(int fd, struct info *info)
{
	struct answer answer;
	u8 data[512];
	int r = receive(fd, &answer, sizeof(answer));
	u32 len = r ? 0 : be32toh(answer.len);

	if (!r && (be64toh(answer.magic) != NBD_REPLY_MAGIC || len > sizeof(data)))
		r = -EPROTO;
	if (!r && len)
		r = receive(fd, data, len);
	if (r)
		return r;
	if (be32toh(answer.type) == NBD_REP_ACK)
		return 1;
	if (be32toh(answer.type) != NBD_REP_INFO)
		return -ENOENT;
	if (len >= sizeof(*info) && !data[0] && data[1] == NBD_INFO_EXPORT)
		memcpy(info, data, sizeof(*info));
	return 0;
}

/* Returns a socket whose next bytes are the kernel's. */
static int open_export(const char *socket_path, const char *name, struct info *info)
{
	int fd = rd_socket_connect(socket_path), r = fd < 0 ? fd : 0;

	if (!r)
		r = ask_to_go(fd, name);
	while (!r)
		r = read_answer(fd, info);
	if (r == 1)
		return fd;
	if (fd >= 0)
		close(fd);
	return rd_err(r, "cannot open the export '%s' at '%s'", name, socket_path);
}

/* --- netlink */

struct message {
	struct nlmsghdr header;
	struct genlmsghdr generic;
	char attrs[1024];
};

static void *add(struct message *message, int type, const void *data, size_t len)
{
	struct nlattr *attr = (void *)((char *)message + NLMSG_ALIGN(message->header.nlmsg_len));

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy(attr + 1, data, len);
	message->header.nlmsg_len = (char *)attr - (char *)message + NLA_ALIGN(attr->nla_len);
	return attr;
}

static void add_number(struct message *message, int type, uint64_t number)
{
	add(message, type, &number, sizeof(number));
}

static void add_text(struct message *message, int type, const char *text)
{
	add(message, type, text, strlen(text) + 1);
}

static void add_socket(struct message *message, int fd)
{
	struct nlattr *sockets = add(message, NBD_ATTR_SOCKETS | NLA_F_NESTED, "", 0);
	struct nlattr *item = add(message, NBD_SOCK_ITEM | NLA_F_NESTED, "", 0);
	uint32_t number = fd;
	char *end;

	add(message, NBD_SOCK_FD, &number, sizeof(number));
	end = (char *)message + message->header.nlmsg_len;
	item->nla_len = end - (char *)item;
	sockets->nla_len = end - (char *)sockets;
}

static struct message new_message(int family, int command, int version)
{
	return (struct message){
		.header = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN), .nlmsg_type = family,
			    .nlmsg_flags = NLM_F_REQUEST },
		.generic = { .cmd = command, .version = version },
	};
}

/* Send @message, and put the answer, or the error that says 0, into its place. */
static int talk(int fd, struct message *message)
{
	const struct nlmsgerr *error = (const struct nlmsgerr *)&message->generic;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	ssize_t len = message->header.nlmsg_len;

	if (sendto(fd, message, len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) != len)
		return -errno;
	len = recv(fd, message, sizeof(*message), 0);
	if (len < 0)
		return -errno;
	if (!NLMSG_OK(&message->header, (size_t)len))
		return -EPROTO;
	return message->header.nlmsg_type == NLMSG_ERROR ? error->error : 0;
}

/* Copy the attribute @type of an answer. */
static int get(const struct message *message, int type, void *ret, size_t size)
{
	const char *at = message->attrs, *end = (const char *)message + message->header.nlmsg_len;
	const struct nlattr *attr = (const void *)at;

	for (; at + NLA_HDRLEN <= end; at += NLA_ALIGN(attr->nla_len)) {
		attr = (const void *)at;
		if (attr->nla_len < NLA_HDRLEN || at + attr->nla_len > end)
			break;
		if ((attr->nla_type & NLA_TYPE_MASK) == type &&
		    attr->nla_len >= NLA_HDRLEN + size) {
			memcpy(ret, attr + 1, size);
			return 0;
		}
	}
	return -EPROTO;
}

/* Returns the number that the kernel gave the driver at boot, or when it was loaded. */
static int find_family(int fd)
{
	struct message message = new_message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1);
	uint16_t family = 0;
	int r;

	add_text(&message, CTRL_ATTR_FAMILY_NAME, NBD_GENL_FAMILY_NAME);
	r = talk(fd, &message);
	if (!r)
		r = get(&message, CTRL_ATTR_FAMILY_ID, &family, sizeof(family));
	return r ? r : family;
}

/* Returns a socket to speak with the driver, *@ret_family its number there. */
static int open_driver(int *ret_family)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

	*ret_family = fd < 0 ? -errno : find_family(fd);
	if (*ret_family >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return *ret_family;
}

static bool has_driver(void)
{
	int family;

	RD_CLOSE int fd = open_driver(&family);

	return fd >= 0;
}

bool rd_nbd_exists(void)
{
	char *const argv[] = { "modprobe", "-q", "nbd", NULL };

	/* Only root may connect a device. */
	if (geteuid())
		return false;
	return has_driver() || (rd_run(argv, NULL) >= 0 && has_driver());
}

/* --- devices */

static void read_owner(unsigned int index, char ret[RD_NBD_OWNER])
{
	char file[64];

	snprintf(file, sizeof(file), "/sys/block/nbd%u/backend", index);
	rd_sysfs_line(file, ret, RD_NBD_OWNER);
}

static void take_index(struct rd_nbd *nbd, unsigned int index)
{
	nbd->index = index;
	snprintf(nbd->path, sizeof(nbd->path), "/dev/nbd%u", index);
	read_owner(index, nbd->owner);
}

static int send_connect(int socket, const struct info *info, const char *owner,
			struct rd_nbd *ret)
{
	struct message message;
	uint32_t index = 0;
	int family, r;

	RD_CLOSE int fd = open_driver(&family);

	if (fd < 0)
		return fd;
	message = new_message(family, NBD_CMD_CONNECT, NBD_GENL_VERSION);
	add_number(&message, NBD_ATTR_SIZE_BYTES, be64toh(info->size));
	add_number(&message, NBD_ATTR_BLOCK_SIZE_BYTES, BLOCK_SIZE);
	add_number(&message, NBD_ATTR_TIMEOUT, RD_NBD_TIMEOUT);
	add_number(&message, NBD_ATTR_SERVER_FLAGS, be16toh(info->flags));
	add_text(&message, NBD_ATTR_BACKEND_IDENTIFIER, owner);
	add_socket(&message, socket);
	r = talk(fd, &message);
	if (!r)
		r = get(&message, NBD_ATTR_INDEX, &index, sizeof(index));
	if (!r)
		take_index(ret, index);
	return r;
}

int rd_nbd_connect(const char *socket, const char *name, const char *owner, struct rd_nbd *ret)
{
	struct info info = { 0 };
	int r;

	RD_CLOSE int fd = open_export(socket, name, &info);

	if (fd < 0)
		return fd;
	r = send_connect(fd, &info, owner, ret);
	if (r)
		return rd_err(r, "the kernel's nbd does not connect to '%s'", socket);
	/* Kernels before 5.14 do not keep it, and the device would never be found again. */
	if (!strcmp(ret->owner, owner))
		return 0;
	rd_nbd_disconnect(ret);
	return rd_err(-EOPNOTSUPP, "the nbd of this kernel is too old");
}

int rd_nbd_disconnect(const struct rd_nbd *nbd)
{
	unsigned int tries = GONE_TRIES;
	struct message message;
	char owner[RD_NBD_OWNER];
	uint32_t index = nbd->index;
	int family, r;

	RD_CLOSE int fd = open_driver(&family);

	if (fd < 0)
		return rd_err(fd, "cannot disconnect '%s'", nbd->path);
	message = new_message(family, NBD_CMD_DISCONNECT, NBD_GENL_VERSION);
	message.header.nlmsg_flags |= NLM_F_ACK;
	add(&message, NBD_ATTR_INDEX, &index, sizeof(index));
	r = talk(fd, &message);
	if (r)
		return rd_err(r, "cannot disconnect '%s'", nbd->path);
	/* It goes when all that have it open have closed it, such as udev. */
	while (read_owner(nbd->index, owner), owner[0] && tries--)
		usleep(GONE_US);
	return 0;
}

int rd_nbd_list(struct rd_buffer *ret)
{
	unsigned int index;
	struct rd_nbd nbd;
	glob_t found;
	size_t i;

	if (glob("/sys/block/nbd*/backend", 0, NULL, &found))
		return 0;
	for (i = 0; i < found.gl_pathc; i++) {
		if (sscanf(found.gl_pathv[i], "/sys/block/nbd%u/", &index) != 1)
			continue;
		take_index(&nbd, index);
		if (nbd.owner[0])
			rd_buffer_put(ret, &nbd, sizeof(nbd));
	}
	globfree(&found);
	return ret->failed ? -ENOMEM : 0;
}

void rd_nbd_owner(dev_t device, char ret[RD_NBD_OWNER])
{
	char file[64];

	snprintf(file, sizeof(file), "/sys/dev/block/%u:%u/backend", major(device), minor(device));
	rd_sysfs_line(file, ret, RD_NBD_OWNER);
}
