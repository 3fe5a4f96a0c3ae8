// SPDX-License-Identifier: GPL-2.0
/*
 * room REPORT FILE COMMAND [ARGUMENT]...: run COMMAND, and add to the file REPORT a line with
 * the most bytes that FILE had allocated on its disk meanwhile, as seen 200 times a second, and
 * the bytes that COMMAND has written to disks in all. Exit with the status of COMMAND.
 */
#define _GNU_SOURCE
#include <err.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static long long allocated(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_blocks * 512LL;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	long long most, now;
	FILE *report;
	pid_t child;
	int status;

	if (argc < 4)
		errx(2, "usage: room REPORT FILE COMMAND [ARGUMENT]...");
	most = allocated(argv[2]);
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child) {
		execvp(argv[3], argv + 3);
		err(127, "'%s'", argv[3]);
	}
	while (!wait4(child, &status, WNOHANG, &usage)) {
		now = allocated(argv[2]);
		most = now > most ? now : most;
		usleep(5000);
	}
	report = fopen(argv[1], "a");
	if (!report || fprintf(report, "%lld %lld\n", most, usage.ru_oublock * 512LL) < 0 ||
	    fclose(report))
		err(1, "'%s'", argv[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
