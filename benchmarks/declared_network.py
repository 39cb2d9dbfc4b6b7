"""The public declaration of KDD Cup 1999: names and categories of its documentation, and round bounds."""

from __future__ import annotations

from declared import category, flags, numbers

from synth.schema import Column

SERVICES = (
    "aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec finger ftp ftp_data "
    "gopher harvest hostnames http http_2784 http_443 http_8001 imap4 IRC iso_tsap klogin kshell ldap link login mtp "
    "name netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i "
    "remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path "
    "vmnet whois X11 Z39_50"
)
KINDS = (
    "normal. back. buffer_overflow. ftp_write. guess_passwd. imap. ipsweep. land. loadmodule. multihop. neptune. nmap. "
    "perl. phf. pod. portsweep. rootkit. satan. smurf. spy. teardrop. warezclient. warezmaster."
)
COUNTS = """
    duration: 0 60000 10
    src_bytes: 0 100000 10
    dst_bytes: 0 100000 10
    wrong_fragment: 0 3 1
    urgent: 0 3 1
    hot: 0 100 1
    num_failed_logins: 0 5 1
    num_compromised: 0 1000 1
    su_attempted: 0 2 1
    num_root: 0 1000 1
    num_file_creations: 0 100 1
    num_shells: 0 5 1
    num_access_files: 0 10 1
    num_outbound_cmds: 0 10 1
    count: 0 511 1
    srv_count: 0 511 1
    dst_host_count: 0 255 1
    dst_host_srv_count: 0 255 1
"""
ORDER_TEXT = (
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot num_failed_logins "
    "logged_in num_compromised root_shell su_attempted num_root num_file_creations num_shells num_access_files "
    "num_outbound_cmds is_host_login is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate "
    "srv_rerror_rate same_srv_rate diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count "
    "dst_host_same_srv_rate dst_host_diff_srv_rate dst_host_same_src_port_rate dst_host_srv_diff_host_rate "
    "dst_host_serror_rate dst_host_srv_serror_rate dst_host_rerror_rate dst_host_srv_rerror_rate kind"
)
ORDER = tuple(ORDER_TEXT.split())


def network() -> list[Column]:
    rates = "\n".join(f"{name}: 0 1 0.01" for name in ORDER if name.endswith("_rate"))
    columns = [
        *numbers(f"{COUNTS.strip()}\n{rates}"),
        category("protocol_type", "icmp tcp udp"),
        category("service", SERVICES, other=True),
        category("flag", "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"),
        *flags(["land", "logged_in", "root_shell", "is_host_login", "is_guest_login"]),
        category("kind", KINDS),
    ]
    return sorted(columns, key=lambda column: ORDER.index(column.name))
